// How many jobs ran and waited lately, as a plot.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import type { Series } from "../model/series";
import { clockText } from "../model/times";
import { useMedia } from "../state/hooks";

const HEIGHT = 150;
/** Seconds between two labels of the time. */
const STEPS = [60, 300, 600, 900, 1800, 3600, 7200, 14_400];

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Not by Intl: on machines with LANG=C the browser's language is `en-US@posix`, which it refuses. */
const clockLabels = (_: unknown, ticks: number[]): string[] =>
  ticks.map((tick) => clockText(new Date(tick * 1000).toISOString()));
const countLabels = (_: unknown, ticks: number[]): string[] =>
  ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : ""));

/** uPlot reads the browser's language when it is loaded, and fails on one that Intl refuses. */
async function loadPlot(): Promise<typeof uPlot> {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
  return (await import("uplot")).default;
}

function optionsFor(made: typeof uPlot, width: number): uPlot.Options {
  const stepped = made.paths.stepped?.({ align: 1 }) as uPlot.Series.PathBuilder;
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(4, Math.ceil(max * 1.1))] } },
    axes: [
      { ...axis, values: clockLabels, space: 70, size: 26, incrs: STEPS },
      { ...axis, values: countLabels, size: 44, space: 28 },
    ],
    series: [
      {},
      { stroke: colour("--own"), width: 2, paths: stepped, points: { show: false } },
      { stroke: colour("--borrowed"), width: 2, dash: [5, 3], paths: stepped, points: { show: false } },
    ],
  };
}

export function Plot({ series, label }: { series: Series; label: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = useMedia("(prefers-color-scheme: dark)");
  const theme = document.documentElement.getAttribute("data-theme") ?? String(dark);
  const data: uPlot.AlignedData = [series.times, series.running, series.waiting];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let gone = false;
    loadPlot().then(
      (made) => {
        if (!gone) plot.current = new made(optionsFor(made, element.clientWidth || 300), latest.current, element);
      },
      // The counts in words stay: a browser that cannot load the plot must not lose the whole view.
      (error: unknown) => console.warn("the plot cannot be drawn", error),
    );
    const observer = new ResizeObserver(
      () => element.clientWidth && plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    observer.observe(element);
    return () => {
      gone = true;
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data), [series]);
  return <div class="plot" ref={box} role="img" aria-label={label} />;
}
