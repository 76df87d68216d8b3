// Who would start and who would be evicted, and the way to apply the change.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { apply, CallError, diff, preview } from "../api/calls";
import type { Affected, Diff, Meta, PreviewStatus, QueueChange } from "../api/types";
import { resourceText } from "../model/amounts";
import { diffKind, EFFECTS } from "../model/changes";
import { counted, printable } from "../model/text";
import { errorText, useCall } from "../state/hooks";
import { useLive } from "../state/live";
import { notify } from "../state/notices";
import { OUT_OF_DATE } from "./actions";
import { Dialog, UNKNOWN_END } from "./dialog";
import { Icon } from "./icon";
import { num, PlainTable } from "./plaintable";
import { Empty, JobLink, Name, Panel, Problem, QueueLink, Wide } from "./text";

/** A slider that moves sends many values; only one that stays is asked about. */
const PAUSE_MILLIS = 350;
const SHOWN_MAX = 200;
const NO_MANAGER = "No manager is running, so nothing can be checked or applied.";
const ICONS: Record<string, string> = {
  Starts: "running",
  Reserves: "dot",
  Evicted: "preempted",
  Restarts: "preempted",
  Moves: "moves",
  Deleted: "cancelled",
  Waits: "pending",
};

function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), PAUSE_MILLIS);
    return () => window.clearTimeout(timer);
  }, [value]);
  return settled;
}

export function PreviewPanel({
  sets,
  meta,
  onApplied,
}: {
  sets: string[];
  meta: Meta;
  onApplied: () => void;
}): JSX.Element {
  const wanted = sets.join("\n");
  const settled = useSettled(wanted);
  return (
    <Panel title="What would happen" id="preview-title" class="preview">
      {sets.length === 0 ? (
        <Empty>
          Change something, and this says at once who would start, who would be evicted, and who would move in line.
        </Empty>
      ) : (
        <Result
          key={settled ? "some" : "none"}
          sets={settled ? settled.split("\n") : []}
          moving={wanted !== settled}
          apply={(ready) => <Apply sets={sets} meta={meta} ready={ready} onApplied={onApplied} />}
        />
      )}
    </Panel>
  );
}

interface ResultProps {
  sets: string[];
  moving: boolean;
  /** Draws the way to apply the change; it is open once the server has accepted the values. */
  apply: (ready: boolean) => JSX.Element;
}

function Result({ sets, moving, apply }: ResultProps): JSX.Element {
  const found = useCall(sets.join("\n"), async (signal) => (sets.length ? preview(sets, signal) : null));
  const busy = found.loading || moving;
  const denied = found.status === 403;
  return (
    <>
      <div role="status">
        {busy ? (
          <Empty>
            Running the scheduler on a copy…
            {found.value && !found.error && " Below is the result before your last change."}
          </Empty>
        ) : denied ? (
          <Empty>Only administrators can preview changes.</Empty>
        ) : found.error ? (
          <Problem text={found.error} />
        ) : (
          found.value && <p class="answer">{summary(found.value)}</p>
        )}
      </div>
      {found.value && !found.error && (
        <div aria-busy={busy} class={busy ? "busy" : ""}>
          {busy && <p class="answer">{summary(found.value)}</p>}
          <Effects found={found.value} />
        </div>
      )}
      {/* Who may not preview may still apply: the server judges the change, and its diff is shown. */}
      {apply(!busy && (!found.error || denied))}
    </>
  );
}

/** How many workloads each effect concerns, listed or not, in one sentence. */
export function summary(found: PreviewStatus): string {
  const counts = new Map<string, number>();
  const add = (effect: string, count: number): void => void counts.set(effect, (counts.get(effect) ?? 0) + count);
  for (const one of found.affected ?? []) add(one.effect, 1);
  for (const others of [found.hidden, found.more])
    for (const [effect, count] of Object.entries(others ?? {})) add(effect, count);
  const parts = Object.keys(EFFECTS)
    .filter((effect) => counts.has(effect))
    .map((effect) => `${counts.get(effect) ?? 0} ${EFFECTS[effect]?.many ?? effect}`);
  return parts.length ? `${parts.join(", ")}.` : "No job would be affected.";
}

function Effects({ found }: { found: PreviewStatus }): JSX.Element {
  const affected = found.affected ?? [];
  const hidden = Object.values(found.hidden ?? {}).reduce((left, right) => left + right, 0);
  const more =
    Object.values(found.more ?? {}).reduce((left, right) => left + right, 0) + Math.max(0, affected.length - SHOWN_MAX);
  return (
    <>
      {affected.length > 0 && (
        <Wide label="Affected jobs">
          <PlainTable heads={["Effect", "Job", "Queue", num("Place"), "Why"]}>
            {affected.slice(0, SHOWN_MAX).map((one) => (
              <AffectedRow key={one.workload} one={one} />
            ))}
          </PlainTable>
        </Wide>
      )}
      {hidden > 0 && <p class="muted">{counted(hidden, "more job")} of others, whose names you may not read.</p>}
      {more > 0 && <p class="muted">{counted(more, "more job")} not listed.</p>}
      {(found.queues?.length ?? 0) > 0 && <QueueChanges queues={found.queues ?? []} />}
      {found.notes?.map((note) => (
        <p key={note} class="muted">
          <Name text={note} most={500} />
        </p>
      ))}
    </>
  );
}

const change = (before: string | number, after: string | number): string =>
  before === after ? String(after) : `${before} → ${after}`;

function AffectedRow({ one }: { one: Affected }): JSX.Element {
  const words = EFFECTS[one.effect];
  const tone = words?.severity === "bad" ? "tone-bad" : words?.severity === "good" ? "tone-own" : "tone-muted";
  const [namespace = "", ...rest] = one.workload.split("/");
  const place = one.place == null && one.placeBefore == null ? "" : change(one.placeBefore ?? "–", one.place ?? "–");
  return (
    <tr>
      <td>
        <span class="state">
          <Icon name={ICONS[one.effect] ?? "failing"} tone={tone} />
          {words?.one ?? printable(one.effect)}
        </span>
      </td>
      <td>
        {one.job ? <JobLink namespace={namespace} name={one.job} /> : <Name text={rest.join("/") || one.workload} />}
      </td>
      <td>
        <QueueLink name={one.queue ?? ""} />
      </td>
      <td class="num">{place}</td>
      <td class="wrap">
        <Name text={one.reason} most={400} />
      </td>
    </tr>
  );
}

function QueueChanges({ queues }: { queues: QueueChange[] }): JSX.Element {
  return (
    <Wide label="Affected queues">
      <PlainTable heads={["Queue", num("Running"), num("Pending"), "Quota used"]}>
        {queues.slice(0, SHOWN_MAX).map((queue) => (
          <tr key={queue.name}>
            <td>
              <QueueLink name={queue.name} />
            </td>
            <td class="num">{change(queue.runningBefore, queue.running)}</td>
            <td class="num">{change(queue.pendingBefore, queue.pending)}</td>
            <td class="wrap">
              {queue.quotas.map((quota) => (
                <div key={`${quota.flavor} ${quota.resource}`}>
                  <Name text={resourceText(quota.resource)} /> of <Name text={quota.flavor} />:{" "}
                  {change(quota.usedBefore, quota.used)} of {change(quota.nominalBefore, quota.nominal)}
                </div>
              ))}
            </td>
          </tr>
        ))}
      </PlainTable>
    </Wide>
  );
}

interface ApplyProps {
  sets: string[];
  meta: Meta;
  ready: boolean;
  onApplied: () => void;
}

function Apply({ sets, meta, ready, onApplied }: ApplyProps): JSX.Element {
  const [asked, setAsked] = useState(false);
  const { stale } = useLive("connection", "overview");
  const close = (): void => setAsked(false);
  if (meta.viewOnly) return <p class="muted">This session is view-only, so the change cannot be applied here.</p>;
  if (!meta.can.apply)
    return <p class="muted">You may not change these objects. Send the address of this page to someone who may.</p>;
  return (
    <div class="apply">
      <button
        type="button"
        class="primary"
        onClick={() => setAsked(true)}
        disabled={!ready || stale || Boolean(meta.alert)}
        title={stale ? OUT_OF_DATE : meta.alert ? NO_MANAGER : undefined}
      >
        Review and apply…
      </button>
      {asked && (
        <ApplyDialog
          sets={sets}
          onClose={close}
          onApplied={() => {
            close();
            onApplied();
          }}
        />
      )}
    </div>
  );
}

function ApplyDialog({
  sets,
  onClose,
  onApplied,
}: {
  sets: string[];
  onClose: () => void;
  onApplied: () => void;
}): JSX.Element {
  const [attempt, setAttempt] = useState(0);
  const [calling, setCalling] = useState<AbortController | null>(null);
  const { stale } = useLive("connection", "overview");
  const [problem, setProblem] = useState("");
  const found = useCall(String(attempt), (signal) => diff(sets, signal));
  const confirmed = async (seen: unknown): Promise<void> => {
    const controller = new AbortController();
    setCalling(controller);
    setProblem("");
    try {
      notify((await apply(sets, seen, controller.signal)).said || "The change is applied.");
      onApplied();
    } catch (error) {
      if (controller.signal.aborted) return notify(UNKNOWN_END, true);
      const changed = error instanceof CallError && error.status === 409;
      setProblem(changed ? `${errorText(error)}. The diff below is new: look at it again.` : errorText(error));
      if (changed) setAttempt(attempt + 1);
      setCalling(null);
    }
  };
  return (
    <Dialog
      title="Apply this change?"
      confirm="Apply change"
      busy={calling !== null}
      disabled={!found.value || found.loading || stale}
      onConfirm={() => void confirmed(found.value?.seen)}
      onClose={() => {
        calling?.abort();
        onClose();
      }}
    >
      {problem && <Problem text={problem} />}
      {found.value ? (
        <DiffView found={found.value} />
      ) : found.error ? (
        <Problem text={found.error} />
      ) : (
        <Empty>Comparing with what is there…</Empty>
      )}
      <p class="muted">It is applied with your own rights, unless the objects change before that.</p>
    </Dialog>
  );
}

function DiffView({ found }: { found: Diff }): JSX.Element {
  if (!found.objects.length) return <Empty>Nothing would change.</Empty>;
  return (
    <>
      {found.objects.map((one) => (
        <figure key={`${one.kind} ${one.namespace ?? ""} ${one.name}`} class="diff">
          <figcaption>
            <Name text={one.kind} /> <Name text={one.namespace ? `${one.namespace}/${one.name}` : one.name} />
          </figcaption>
          <pre tabIndex={0} role="region" aria-label={`Changes of ${printable(one.name)}`}>
            {one.lines.map((line, index) => (
              <span key={index} class={`diff-${diffKind(line)}`}>
                {printable(line)}
                {"\n"}
              </span>
            ))}
          </pre>
        </figure>
      ))}
    </>
  );
}
