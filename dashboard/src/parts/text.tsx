// Words, times and links from data. All of it is text: nothing from data becomes markup.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { JobState } from "../api/types";
import { durationText } from "../model/amounts";
import { jobLink, queueLink } from "../model/route";
import { printable, printableBlock, shortened } from "../model/text";
import { agoText, clockText, localTimes, now } from "../model/times";
import { useTick } from "../state/hooks";
import { Icon } from "./icon";

/** A name or message on one line, in its own direction of writing. */
export function Name({ text, most = 200 }: { text: string | undefined; most?: number }): JSX.Element {
  const whole = printable(text ?? "");
  const short = shortened(whole, most);
  return <bdi title={short === whole ? undefined : shortened(whole, 1000)}>{short}</bdi>;
}

/** A sentence of the server; its times are shown in the reader's time zone. */
export function Words({ text, most = 200 }: { text: string | undefined; most?: number }): JSX.Element {
  return <Name text={localTimes(text ?? "")} most={most} />;
}

/** Text of several lines, as it is. */
export function Block({ text, label }: { text: string; label: string }): JSX.Element {
  return (
    <pre class="block" tabIndex={0} role="region" aria-label={label}>
      {printableBlock(text)}
    </pre>
  );
}

const STATES: Record<JobState, [string, string, string]> = {
  RUNNING: ["running", "tone-own", "Running"],
  PENDING: ["pending", "tone-wait", "Pending"],
  HELD: ["held", "tone-muted", "Held"],
  FAILING: ["failing", "tone-bad", "Failing"],
  STOPPING: ["stopping", "tone-muted", "Stopping"],
  COMPLETED: ["completed", "tone-good", "Completed"],
  FAILED: ["failed", "tone-bad", "Failed"],
  CANCELLED: ["cancelled", "tone-muted", "Cancelled"],
};

export const stateText = (state: string): string => STATES[state as JobState]?.[2] ?? printable(state);

export function State({ state }: { state: string }): JSX.Element {
  const [icon, tone] = STATES[state as JobState] ?? ["dot", "tone-muted"];
  return (
    <span class="state">
      <Icon name={icon} tone={tone} />
      {stateText(state)}
    </span>
  );
}

/** How long ago a time was, kept up to date; the time itself is its title. */
export function Ago({ at }: { at: string | undefined }): JSX.Element {
  useTick();
  const text = agoText(at);
  return text ? (
    <time dateTime={at} title={clockText(at, true)}>
      {text}
    </time>
  ) : (
    <span class="muted">–</span>
  );
}

/** How long it is until a time; "now" once it has passed. */
export function Until({ at }: { at: string }): JSX.Element {
  useTick();
  const left = (Date.parse(at) - now()) / 1000;
  return (
    <time dateTime={at} title={clockText(at, true)}>
      {left > 0 ? durationText(left) : "now"}
    </time>
  );
}

export function Clock({ at, seconds = false }: { at: string | undefined; seconds?: boolean }): JSX.Element {
  return (
    <time dateTime={at ?? ""} title={at ?? ""}>
      {clockText(at, seconds)}
    </time>
  );
}

export function JobLink({
  namespace,
  name,
  tabIndex,
}: {
  namespace: string;
  name: string;
  tabIndex?: number;
}): JSX.Element {
  return (
    <a href={jobLink(namespace, name)} tabIndex={tabIndex} class="name">
      <span class="ns">
        <Name text={namespace} most={64} />/
      </span>
      <wbr />
      <Name text={name} />
    </a>
  );
}

export function QueueLink({ name, tabIndex }: { name: string; tabIndex?: number }): JSX.Element {
  return name ? (
    <a href={queueLink(name)} tabIndex={tabIndex}>
      <Name text={name} />
    </a>
  ) : (
    <span class="muted">–</span>
  );
}

/** A part of a page with a heading. */
export function Panel(props: {
  title: ComponentChildren;
  id: string;
  aside?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={props.id}>
      <header class="panel-head">
        <h2 id={props.id}>{props.title}</h2>
        {props.aside && <div class="aside">{props.aside}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** What is said where there is nothing to show. */
export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

/** What is said in place of a list that the reader may not see. Commands in it are marked by backticks. */
export function Denied({ text }: { text: string }): JSX.Element {
  return (
    <p class="problem">
      <Icon name="held" tone="tone-bad" />{" "}
      <span>
        {printable(text)
          .split("`")
          .map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}
      </span>
    </p>
  );
}

/** What is said where a call failed. */
export function Problem({ text }: { text: string }): JSX.Element {
  return (
    <p class="problem" role="alert">
      <Icon name="failing" tone="tone-bad" /> <Name text={text} most={2000} />
    </p>
  );
}

/** A table that is scrolled sideways where there is no room for it; then it can be reached by keyboard, too. */
export function Wide({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setScrolls(element.scrollWidth > element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const reachable = scrolls ? { tabIndex: 0, role: "group" as const, "aria-label": label } : {};
  return (
    <div class="scroll-x" ref={box} {...reachable}>
      {children}
    </div>
  );
}
