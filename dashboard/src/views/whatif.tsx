// What a change of quotas and rules would do. Nothing is applied unless the reader applies it, after a diff.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Overview, Policy, Usage } from "../api/types";
import { amountOf, amountText, quantityText, resourceText } from "../model/amounts";
import { quotaPaths, splitSet, valueOf, withValue } from "../model/changes";
import { whatIfLink } from "../model/route";
import { printable, shortened } from "../model/text";
import { PreviewPanel } from "../parts/preview";
import { Icon } from "../parts/icon";
import { Empty, Name, Panel } from "../parts/text";
import { replaceAddress, useTitle } from "../state/hooks";
import { useLive } from "../state/live";

interface Editing {
  sets: string[];
  set: (paths: string[], value: string | null) => void;
}

export function WhatIfView({ sets, queue }: { sets: string[]; queue: string }): JSX.Element {
  const { overview } = useLive("overview");
  useTitle("What if");
  const names = [...new Set(overview?.queues.filter((row) => row.kind === "queue").map((row) => row.name))];
  const named = queue || queueIn(sets, names);
  const chosen = names.includes(named) ? named : names.length <= 1 ? (names[0] ?? "") : "";
  const show = (next: string[], name = chosen): void => replaceAddress(whatIfLink(next, name));
  const editing: Editing = { sets, set: (paths, value) => show(withValue(sets, paths, value)) };
  if (!overview) return <></>;
  return (
    <>
      <div class="title-line">
        <h1>What if</h1>
        <span class="muted">A preview: nothing changes unless you apply it.</span>
      </div>
      <div class="what-if">
        <div>
          <Panel title="Change" id="change-title">
            {names.length === 0 ? (
              <Empty>You may read no ClusterQueues, so there is nothing to change here.</Empty>
            ) : (
              <>
                <QueueChoice names={names} chosen={chosen} onChange={(name) => show(sets, name)} />
                {chosen ? (
                  <QueueForm overview={overview} name={chosen} editing={editing} />
                ) : (
                  <Empty>Choose a queue to move its quotas and change its rules.</Empty>
                )}
              </>
            )}
            <OtherChange onAdd={(set) => show([...sets.filter((one) => one !== set), set])} />
          </Panel>
          <SetList sets={sets} show={show} />
        </div>
        <PreviewPanel sets={sets} meta={overview.meta} onApplied={() => show([])} />
      </div>
    </>
  );
}

/** The queue that the first change is about; names may contain dots, so the longest that fits wins. */
function queueIn(sets: string[], names: string[]): string {
  const path = splitSet(sets[0] ?? "")?.[0].replace(/^clusterqueue\//, "") ?? "";
  return names.filter((name) => path.startsWith(`${name}.`)).sort((left, right) => right.length - left.length)[0] ?? "";
}

function QueueChoice({
  names,
  chosen,
  onChange,
}: {
  names: string[];
  chosen: string;
  onChange: (name: string) => void;
}): JSX.Element {
  const picked = (event: Event): void => {
    const text = (event.target as HTMLInputElement).value;
    if (names.includes(text)) onChange(text);
  };
  if (names.length <= 50) {
    return (
      <label class="field">
        Queue
        <select value={chosen} onChange={picked}>
          {!chosen && <option value="">choose…</option>}
          {names.map((name) => (
            <option key={name} value={name}>
              {shortened(printable(name), 100)}
            </option>
          ))}
        </select>
      </label>
    );
  }
  return (
    <label class="field">
      Queue <span class="muted">(of {names.length.toLocaleString("en-US")})</span>
      <input type="search" list="what-if-queues" value={chosen} placeholder="type a name" onInput={picked} />
      <datalist id="what-if-queues">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

function QueueForm({ overview, name, editing }: { overview: Overview; name: string; editing: Editing }): JSX.Element {
  const usages = overview.queues.filter((row) => row.kind === "queue" && row.name === name);
  const policy = overview.policies[name];
  const whole = (usage: Usage): number =>
    overview.queues.filter(
      (row) =>
        row.kind === "cohort" &&
        row.name === usage.cohort &&
        row.flavor === usage.flavor &&
        row.resource === usage.resource,
    )[0]?.nominal ?? 0;
  return (
    <>
      {usages.map((usage) => (
        <QuotaField
          key={`${usage.flavor} ${usage.resource}`}
          usage={usage}
          all={usages}
          policy={policy}
          most={whole(usage)}
          editing={editing}
        />
      ))}
      <RuleFields name={name} policy={policy} editing={editing} />
    </>
  );
}

/** A step of the slider: a core, a GiB, a unit; a tenth of that where there is little. */
function stepOf(usage: Usage, most: number): number {
  const unit = usage.unit === "cpu" ? 1000 : usage.unit === "bytes" ? 2 ** 30 : 1;
  if (most >= 4 * unit) return most > 2000 * unit ? unit * 10 : unit;
  return usage.unit === "cpu" ? 100 : usage.unit === "bytes" ? 2 ** 26 : 1;
}

interface QuotaFieldProps {
  usage: Usage;
  all: Usage[];
  policy: Policy | undefined;
  most: number;
  editing: Editing;
}

function QuotaField({ usage, all, policy, most, editing }: QuotaFieldProps): JSX.Element {
  const paths = quotaPaths(usage, all);
  const now = usage.nominal ?? 0;
  const given = valueOf(editing.sets, paths);
  const value = given === null ? now : (amountOf(given, usage.unit) ?? now);
  const some = 4 * (usage.unit === "cpu" ? 1000 : usage.unit === "bytes" ? 2 ** 30 : 1);
  const top = Math.max(now * 2, now + some, most, usage.used, value);
  const id = `quota-${usage.flavor}-${usage.resource}`;
  const label = `${resourceText(usage.resource)} of flavor ${usage.flavor}`;
  const slide = (event: Event): void => {
    const chosen = Number((event.target as HTMLInputElement).value);
    editing.set(paths, chosen === now ? null : quantityText(chosen, usage.unit));
  };
  const write = (event: Event): void => {
    const text = (event.target as HTMLInputElement).value.trim();
    editing.set(paths, text === "" || amountOf(text, usage.unit) === now ? null : text);
  };
  const limits = policy?.limits?.find((one) => one.flavor === usage.flavor && one.resource === usage.resource);
  return (
    <fieldset>
      <legend>
        <Name text={label} most={100} />
      </legend>
      <div class="slider">
        <input
          type="range"
          min={0}
          max={top}
          step={stepOf(usage, top)}
          value={value}
          onInput={slide}
          aria-labelledby={`${id}-label`}
          aria-valuetext={amountText(value, usage.unit)}
        />
        <label id={`${id}-label`}>
          Nominal{" "}
          <input
            type="text"
            size={8}
            value={given ?? quantityText(now, usage.unit)}
            onChange={write}
            inputMode="decimal"
          />
        </label>
      </div>
      <p class="muted">
        now {amountText(now, usage.unit)}, in use {amountText(usage.used, usage.unit)}
        {given !== null && (
          <>
            ;{" "}
            <button type="button" class="link" onClick={() => editing.set(paths, null)}>
              reset
            </button>
          </>
        )}
      </p>
      {policy?.cohort && (
        <div class="limits">
          <LimitField
            label="Borrowing limit"
            now={limits?.borrowingLimit}
            paths={quotaPaths(usage, all, ".borrowingLimit")}
            editing={editing}
          />
          <LimitField
            label="Lending limit"
            now={limits?.lendingLimit}
            paths={quotaPaths(usage, all, ".lendingLimit")}
            editing={editing}
          />
        </div>
      )}
    </fieldset>
  );
}

function LimitField({
  label,
  now,
  paths,
  editing,
}: {
  label: string;
  now: string | null | undefined;
  paths: string[];
  editing: Editing;
}): JSX.Element {
  const given = valueOf(editing.sets, paths);
  const write = (event: Event): void => {
    const text = (event.target as HTMLInputElement).value.trim();
    editing.set(paths, text === (now ?? "") ? null : text);
  };
  return (
    <label class="field">
      {label} <input type="text" size={8} value={given ?? now ?? ""} placeholder="none" onChange={write} />
    </label>
  );
}

const RULES: [string, string, string[]][] = [
  ["queueingStrategy", "Order", ["BestEffortFIFO", "StrictFIFO"]],
  ["stopPolicy", "Stopped", ["None", "Hold", "HoldAndDrain"]],
  ["preemption.withinClusterQueue", "Preempts in the queue", ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]],
  ["preemption.reclaimWithinCohort", "Reclaims in the cohort", ["Never", "LowerPriority", "Any"]],
];

function ruleNow(policy: Policy | undefined, path: string): string {
  if (path === "queueingStrategy") return policy?.strategy || "BestEffortFIFO";
  if (path === "stopPolicy") return policy?.stopPolicy || "None";
  const found = policy?.preemption?.[path.slice("preemption.".length)];
  return typeof found === "string" && found ? found : "Never";
}

function RuleFields({
  name,
  policy,
  editing,
}: {
  name: string;
  policy: Policy | undefined;
  editing: Editing;
}): JSX.Element {
  return (
    <details open={editing.sets.some((set) => RULES.some(([path]) => set.includes(`.${path}=`)))}>
      <summary>Rules</summary>
      <div class="rules">
        {RULES.map(([path, label, options]) => {
          const paths = [`clusterqueue/${name}.${path}`];
          const now = ruleNow(policy, path);
          const pick = (event: Event): void => {
            const value = (event.target as HTMLSelectElement).value;
            editing.set(paths, value === now ? null : value);
          };
          return (
            <label key={path} class="field">
              {label}
              <select value={valueOf(editing.sets, paths) ?? now} onChange={pick}>
                {options.map((option) => (
                  <option key={option} value={option}>
                    {option === now ? `${option} (now)` : option}
                  </option>
                ))}
              </select>
            </label>
          );
        })}
      </div>
    </details>
  );
}

function OtherChange({ onAdd }: { onAdd: (set: string) => void }): JSX.Element {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => setProblem(""), [text]);
  const add = (event: Event): void => {
    event.preventDefault();
    if (!splitSet(text)) setProblem("Write a field and a value, as in cohort/research.cpu=64.");
    else {
      onAdd(text.trim());
      setText("");
    }
  };
  return (
    <form class="other" onSubmit={add}>
      <label class="field">
        Another change, as of <code>pykueue preview --set</code>
        <span class="row">
          <input
            type="text"
            value={text}
            placeholder="cohort/research.cpu=64"
            onInput={(event) => setText(event.currentTarget.value)}
            aria-describedby="other-problem"
            spellcheck={false}
          />
          <button type="submit">Add</button>
        </span>
      </label>
      <p id="other-problem" role="alert" class="problem-text">
        {problem}
      </p>
    </form>
  );
}

function SetList({ sets, show }: { sets: string[]; show: (next: string[]) => void }): JSX.Element | null {
  if (!sets.length) return null;
  return (
    <Panel
      title="Changes that are previewed"
      id="sets-title"
      aside={
        <button type="button" class="quiet" onClick={() => show([])}>
          Remove all
        </button>
      }
    >
      <ul class="sets">
        {sets.map((set) => (
          <li key={set}>
            <code>
              <Name text={set} most={300} />
            </code>
            <button
              type="button"
              class="quiet"
              aria-label={`Remove ${shortened(printable(set))}`}
              onClick={() => show(sets.filter((one) => one !== set))}
            >
              <Icon name="failed" />
            </button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
