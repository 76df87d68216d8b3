// An estimate in a few characters, for a table; its message says the same in full.
import type { Estimate } from "../api/types";
import { clockText, dayText } from "./times";

const SOON_MILLIS = 60_000;

export function estimateText(found: Estimate): string {
  switch (found.state) {
    case "Pending":
      return pendingText(found);
    case "Gated":
      return found.notBefore ? `not before ${clockText(found.notBefore)}` : "waits for others";
    case "Held":
      return "held";
    case "Never":
      return "never";
    case "Started":
      return "started";
    case "Finished":
      return "finished";
    default:
      return found.state;
  }
}

function pendingText(found: Estimate): string {
  if (!found.earliest) return "not within 30 days";
  if (!found.latest) return `${clockText(found.earliest)} or later`;
  if (Date.parse(found.latest) - Date.parse(found.asked ?? "") <= SOON_MILLIS) return "now";
  const from = clockText(found.earliest),
    until = clockText(found.latest);
  if (from === until) return `about ${from}`;
  const day = dayText(found.latest);
  // The second time has no day if it is that of the first.
  return `${from} – ${day && day === dayText(found.earliest) ? until.slice(day.length + 1) : until}`;
}
