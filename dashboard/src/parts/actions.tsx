// Cancel, hold and release: offered where the user may, done after a confirmation.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { act } from "../api/calls";
import type { Verb } from "../api/calls";
import type { JobState, JobSummary, Meta } from "../api/types";
import { keyOf } from "../model/filter";
import { counted } from "../model/text";
import { errorText } from "../state/hooks";
import { notify } from "../state/notices";
import { Dialog } from "./dialog";
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
  if (shown.length === 0 && !asked) return null;
  return (
    <span class="actions">
      {shown.map(({ verb, fits }) => (
        <button
          key={verb}
          type="button"
          class={VERBS[verb].danger ? "danger-text" : ""}
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
  const [busy, setBusy] = useState(false);
  const words = VERBS[verb];
  const one = jobs[0];
  const confirmed = async (): Promise<void> => {
    setBusy(true);
    await carryOut(verb, jobs);
    onClose();
  };
  const title = jobs.length === 1 ? `${words.label} this job?` : `${words.label} ${counted(jobs.length, "job")}?`;
  const confirm = jobs.length === 1 ? `${words.label} job` : `${words.label} ${counted(jobs.length, "job")}`;
  return (
    <Dialog
      title={title}
      confirm={confirm}
      danger={words.danger}
      busy={busy}
      onConfirm={() => void confirmed()}
      onClose={onClose}
    >
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

async function carryOut(verb: Verb, jobs: JobSummary[]): Promise<void> {
  const failed: string[] = [];
  let said = "";
  for (const job of jobs) {
    try {
      said = (await act(verb, job.namespace, job.name)).said ?? "";
    } catch (error) {
      failed.push(`${keyOf(job)}: ${errorText(error)}`);
    }
  }
  const done = jobs.length - failed.length;
  if (done === 1 && said) notify(said);
  else if (done > 0) notify(`${VERBS[verb].label}: done for ${counted(done, "job")}.`);
  for (const one of failed.slice(0, 3)) notify(`${VERBS[verb].label} failed for ${one}`, true);
  if (failed.length > 3) notify(`${VERBS[verb].label} failed for ${failed.length - 3} more.`, true);
}
