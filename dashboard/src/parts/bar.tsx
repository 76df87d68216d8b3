// The bar of a quota: own use solid, borrowed striped, lent dotted, the rest empty.
import type { JSX } from "preact";
import type { Usage } from "../api/types";
import { amountText, percent } from "../model/amounts";
import { partsOf } from "../model/tree";

const width = (hundredths: number): { width: string } => ({ width: `${hundredths}%` });

/** The bar alone; the numbers stand beside it, so it is hidden from screen readers. */
export function Bar({ usage }: { usage: Usage }): JSX.Element {
  const parts = partsOf(usage);
  return (
    <span class={`bar ${usage.nominal === null ? "bar-open" : ""}`} aria-hidden="true" title={barText(usage)}>
      <span class="bar-own" style={width(parts.own)} />
      <span class="bar-lent" style={width(parts.lent)} />
      <span class="bar-borrowed" style={width(parts.borrowed)} />
      {parts.quota < 100 && <span class="bar-quota" style={{ left: `${parts.quota}%` }} />}
    </span>
  );
}

/** The same in words. */
export function barText(usage: Usage): string {
  const text = (value: number | null): string => amountText(value, usage.unit);
  const parts = [
    usage.nominal === null ? `${text(usage.used)} used` : `${text(usage.used)} of ${text(usage.nominal)} used`,
  ];
  if (usage.borrowed) parts.push(`${text(usage.borrowed)} borrowed`);
  if (usage.lent) parts.push(`${text(usage.lent)} lent`);
  return parts.join(", ");
}

/** A plain bar for a part of a whole. */
export function Meter({ part, whole, label }: { part: number; whole: number; label: string }): JSX.Element {
  const share = Math.min(100, percent(part, whole));
  return (
    <span class="bar" role="img" aria-label={label}>
      <span class="bar-own" style={width(share)} />
    </span>
  );
}

export function Legend(): JSX.Element {
  return (
    <ul class="legend" aria-label="Legend of the bars">
      <li>
        <span class="swatch bar-own" /> own use
      </li>
      <li>
        <span class="swatch bar-lent" /> lent within the cohort
      </li>
      <li>
        <span class="swatch bar-borrowed" /> borrowed
      </li>
      <li>
        <span class="swatch swatch-free" /> free
      </li>
    </ul>
  );
}
