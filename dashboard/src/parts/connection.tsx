// Whether what the page shows is still true, and since when it may not be.
import type { JSX } from "preact";
import { UNANSWERED } from "../api/calls";
import { durationText } from "../model/amounts";
import { clockText, now } from "../model/times";
import { useTick } from "../state/hooks";
import { live, useLive } from "../state/live";
import { Icon } from "./icon";
import { Name, Words } from "./text";

/** So long after a server was last heard, it has hardly just been restarted. */
const LONG_MILLIS = 15_000;

/** A word in the header. */
export function LiveSign(): JSX.Element {
  const { connection, overview } = useLive("connection", "overview");
  const stale = connection.state === "lost" || Boolean(overview?.meta.stale);
  const [icon, tone, text] =
    connection.state === "ended"
      ? ["failed", "tone-bad", "Ended"]
      : connection.state === "connecting"
        ? ["pending", "tone-muted", "Connecting"]
        : stale
          ? ["failing", "tone-bad", "Stale"]
          : overview?.meta.jobsDenied
            ? ["failing", "tone-bad", "No access"]
            : ["dot", "tone-good", "Live"];
  return (
    <span class="live">
      <Icon name={icon} tone={tone} />
      {text}
    </span>
  );
}

/** A sentence above the view while something is wrong. */
export function Banner(): JSX.Element {
  const { connection, overview } = useLive("connection", "overview");
  const stale = overview?.meta.stale;
  const alert = overview?.meta.alert;
  return (
    <>
      {connection.state === "live" && alert && (
        <p class="banner bad" role="alert">
          <Icon name="failing" tone="tone-bad" />
          <span>
            <Words text={alert} most={500} />.
          </span>
        </p>
      )}
      <div role="status" aria-live="polite">
        {connection.state === "ended" && (
          <p class="banner bad">
            <Icon name="failed" tone="tone-bad" />
            <span>
              This session has ended{overview && "; what is shown is from its last moment"}. Run{" "}
              <code>pykueue dashboard</code> to open a new one.
            </span>
          </p>
        )}
        {connection.state === "lost" && (
          <Lost since={connection.since} nextTry={connection.nextTry} problem={connection.problem} />
        )}
        {connection.state === "live" && stale && (
          <p class="banner bad">
            <Icon name="failing" tone="tone-bad" />
            <span>
              Stale since {clockText(overview?.meta.asOf, true)}: <Name text={stale} most={500} />.
            </span>
          </p>
        )}
      </div>
    </>
  );
}

function Lost({ since, nextTry, problem }: { since: number; nextTry: number; problem: string }): JSX.Element {
  return (
    <p class="banner bad">
      <Icon name="failing" tone="tone-bad" />
      <span>
        Stale since {clockText(new Date(since).toISOString(), true, now())}: <Name text={problem} most={300} />.{" "}
        <Countdown nextTry={nextTry} /> <Ended since={since} problem={problem} />
      </span>
      <button type="button" onClick={() => live.retry()}>
        Try now
      </button>
    </p>
  );
}

/** What to do when the command that serves the page seems to have ended: that serves it by HTTP, `pykueue up` does not. */
function Ended({ since, problem }: { since: number; problem: string }): JSX.Element | null {
  useTick();
  const long = Date.now() - since > LONG_MILLIS && problem === UNANSWERED && location.protocol === "http:";
  return long ? (
    <>
      If you ended <code>pykueue dashboard</code>, run it again.
    </>
  ) : null;
}

/** Hidden from screen readers, which would read it out every second. */
function Countdown({ nextTry }: { nextTry: number }): JSX.Element {
  useTick();
  const left = (nextTry - Date.now()) / 1000;
  return (
    <span aria-hidden="true">{left > 0.5 ? `Next attempt in ${durationText(Math.ceil(left))}.` : "Trying again…"}</span>
  );
}
