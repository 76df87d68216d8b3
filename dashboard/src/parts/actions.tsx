// Cancel, hold and release: offered where the user may, done after a confirmation.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { act } from "../api/calls";
import type { Verb } from "../api/calls";
import type { JobState, JobSummary, Meta } from "../api/types";
import { keyOf } from "../model/filter";
import { counted } from "../model/text";
import { errorText } from "../state/hooks";
import { useLive } from "../state/live";
import { notify } from "../state/notices";
import { Dialog, UNKNOWN_END } from "./dialog";
import { JobLink, Name } from "./text";

interface VerbWords {
  label: string;
  states: ReadonlySet<JobState>;
  effect: string;
  danger: boolean;
}

const VERBS: Record<Verb, VerbWords> = {
  cancel: {
    label: "Cancel",
    danger: true,
    states: new Set<JobState>(["PENDING", "HELD", "RUNNING", "FAILING"]),
    effect: "The Job is deleted. What runs is stopped, and work that was not saved is lost.",
  },
  hold: {
    label: "Hold",
    danger: false,
    states: new Set<JobState>(["PENDING", "RUNNING", "FAILING"]),
    effect: "The job leaves the queue and starts only once it is released. If it runs, it is stopped.",
  },
  release: {
    label: "Release",
    danger: false,
    states: new Set<JobState>(["HELD"]),
    effect: "The job returns to its queue.",
  },
};
const SHOWN_MAX = 8;
export const OUT_OF_DATE = "The page is out of date; wait until it is live again.";

/** The verbs that the session allows, whatever the job. */
export function allowedVerbs(meta: Meta | undefined): Verb[] {
  if (!meta || meta.viewOnly) return [];
  const verbs: Verb[] = [];
  if (meta.can.hold) verbs.push("release", "hold");
  if (meta.can.cancel) verbs.push("cancel");
  return verbs;
}

export const applies = (verb: Verb, job: JobSummary): boolean => VERBS[verb].states.has(job.state);

/** The buttons for some jobs; with `all`, each verb says for how many of them it has a meaning. */
export function Actions({
  jobs,
  meta,
  all = false,
}: {
  jobs: JobSummary[];
  meta: Meta | undefined;
  all?: boolean;
}): JSX.Element | null {
  const [asked, setAsked] = useState<{ verb: Verb; jobs: JobSummary[] } | null>(null);
  const verbs = allowedVerbs(meta).map((verb) => ({ verb, fits: jobs.filter((job) => applies(verb, job)) }));
  const shown = verbs.filter(({ fits }) => fits.length > 0);
  const { stale } = useLive("connection", "overview");
  if (shown.length === 0 && !asked) return null;
  return (
    <span class="actions">
      {shown.map(({ verb, fits }) => (
        <button
          key={verb}
          type="button"
          class={VERBS[verb].danger ? "danger-text" : ""}
          disabled={stale}
          title={stale ? OUT_OF_DATE : undefined}
          onClick={() => setAsked({ verb, jobs: fits })}
        >
          {VERBS[verb].label}
          {all && ` ${fits.length}`}…
        </button>
      ))}
      {asked && <Confirmation {...asked} onClose={() => setAsked(null)} />}
    </span>
  );
}

function Confirmation({ verb, jobs, onClose }: { verb: Verb; jobs: JobSummary[]; onClose: () => void }): JSX.Element {
  const [calling, setCalling] = useState<AbortController | null>(null);
  const { stale } = useLive("connection", "overview");
  const words = VERBS[verb];
  const one = jobs[0];
  const confirmed = async (): Promise<void> => {
    const controller = new AbortController();
    setCalling(controller);
    await carryOut(verb, jobs, controller.signal);
    if (!controller.signal.aborted) onClose();
  };
  const close = (): void => {
    calling?.abort();
    onClose();
  };
  const title = jobs.length === 1 ? `${words.label} this job?` : `${words.label} ${counted(jobs.length, "job")}?`;
  const confirm = jobs.length === 1 ? `${words.label} job` : `${words.label} ${counted(jobs.length, "job")}`;
  return (
    <Dialog
      title={title}
      confirm={confirm}
      danger={words.danger}
      busy={calling !== null}
      disabled={stale}
      onConfirm={() => void confirmed()}
      onClose={close}
    >
      {stale && !calling && <p class="muted">{OUT_OF_DATE}</p>}
      <ul class="plain">
        {jobs.slice(0, SHOWN_MAX).map((job) => (
          <li key={keyOf(job)}>
            <JobLink namespace={job.namespace} name={job.name} />
          </li>
        ))}
        {jobs.length > SHOWN_MAX && <li class="muted">and {jobs.length - SHOWN_MAX} more</li>}
      </ul>
      {one && <p>{words.effect}</p>}
      {one?.owner && jobs.length === 1 && (
        <p class="muted">
          Submitted by <Name text={one.owner} />.
        </p>
      )}
    </Dialog>
  );
}

async function carryOut(verb: Verb, jobs: JobSummary[], signal: AbortSignal): Promise<void> {
  const failed: string[] = [];
  let said = "";
  let done = 0;
  for (const job of jobs) {
    try {
      said = (await act(verb, job.namespace, job.name, signal)).said ?? "";
      done += 1;
    } catch (error) {
      if (signal.aborted) {
        notify(UNKNOWN_END, true);
        break;
      }
      failed.push(`${keyOf(job)}: ${errorText(error)}`);
    }
  }
  if (done === 1 && said) notify(said);
  else if (done > 0) notify(`${VERBS[verb].label}: done for ${counted(done, "job")}.`);
  for (const one of failed.slice(0, 3)) notify(`${VERBS[verb].label} failed for ${one}`, true);
  if (failed.length > 3) notify(`${VERBS[verb].label} failed for ${failed.length - 3} more.`, true);
}
