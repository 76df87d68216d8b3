// The estimated start of a job, as it arrives.
import type { JSX } from "preact";
import { estimateText } from "../model/estimates";
import { localTimes } from "../model/times";
import { printable, shortened } from "../model/text";
import type { useEstimates } from "../state/estimates";

type Answers = ReturnType<typeof useEstimates>;

export function Eta({ answers, job }: { answers: Answers; job: string }): JSX.Element {
  const answer = answers.get(job);
  if (!answer)
    return (
      <span class="muted" title="The server estimates one job after the other.">
        estimating…
      </span>
    );
  if ("error" in answer)
    return (
      <span class="muted" title={shortened(printable(answer.error), 500)}>
        no estimate
      </span>
    );
  const message = answer.estimate.message || answer.estimate.reason || "";
  return <span title={shortened(printable(localTimes(message)), 500)}>{estimateText(answer.estimate)}</span>;
}
