// Small drawings that stand beside words, so that no state is told by colour alone.
import type { JSX } from "preact";

const PATHS: Record<string, string> = {
  running: "M4 2.5v11l9.5-5.5z",
  pending:
    "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm0 1.6a4.9 4.9 0 1 1 0 9.8 4.9 4.9 0 0 1 0-9.8zM7.2 4.5h1.6v3.2l2.3 1.4-.8 1.3-3.1-1.9z",
  held: "M3.5 2.5h3v11h-3zM9.5 2.5h3v11h-3z",
  failing: "M8 1 .8 14.5h14.4zm-.9 5h1.8v4.4H7.1zm0 5.4h1.8v1.7H7.1z",
  stopping: "M3 3h10v10H3z",
  completed: "m6.3 13.2-5-5 1.5-1.5 3.5 3.5 7-7 1.5 1.5z",
  failed: "m3.4 2 4.6 4.6L12.6 2 14 3.4 9.4 8l4.6 4.6-1.4 1.4L8 9.4 3.4 14 2 12.6 6.6 8 2 3.4z",
  cancelled:
    "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm0 1.8c1 0 1.9.3 2.7.8l-6.6 6.6a4.7 4.7 0 0 1 3.9-7.4zm0 9.4c-1 0-1.9-.3-2.7-.8l6.6-6.6a4.7 4.7 0 0 1-3.9 7.4z",
  preempted: "M7 2v3.2h7v5.6H7V14L1 8z",
  submitted: "M7.1 2h1.8v5.1H14v1.8H8.9V14H7.1V8.9H2V7.1h5.1z",
  closed: "m5 2.5 6 5.5-6 5.5z",
  open: "m2.5 5 5.5 6 5.5-6z",
  up: "m8 3.5 5.5 8h-11z",
  down: "m8 12.5 5.5-8h-11z",
  dot: "M8 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z",
  moves:
    "M5 1.5 8.5 5 7.3 6.2 5.8 4.7V14H4.2V4.7L2.7 6.2 1.5 5zM11.8 11.3V2h-1.6v9.3L8.7 9.8 7.5 11l3.5 3.5 3.5-3.5-1.2-1.2z",
};

export function Icon({ name, tone = "" }: { name: string; tone?: string }): JSX.Element {
  return (
    <svg class={`icon ${tone}`} viewBox="0 0 16 16" width="12" height="12" aria-hidden="true" focusable="false">
      <path d={PATHS[name] ?? PATHS.dot ?? ""} />
    </svg>
  );
}
