// An explanation: a sentence, and below it those that explain it.
import type { JSX } from "preact";
import type { Sentence } from "../api/types";
import { Words } from "./text";

const TEXT_MAX = 2000;

/** The first sentence says what its subject does, as in "waits: …", so the subject is put before it. */
export function Sentences({ tree, subject }: { tree: Sentence; subject: string }): JSX.Element {
  const whole = /^[a-z]/.test(tree.text) ? `${subject} ${tree.text}` : tree.text;
  return (
    <div class="sentences">
      <p class="answer">
        <Words text={whole} most={TEXT_MAX} />
      </p>
      <Children of={tree} />
    </div>
  );
}

function Children({ of }: { of: Sentence }): JSX.Element | null {
  if (!of.children?.length) return null;
  return (
    <ul>
      {of.children.map((child, index) => (
        <li key={index} data-code={child.code}>
          <Words text={child.text} most={TEXT_MAX} />
          <Children of={child} />
        </li>
      ))}
    </ul>
  );
}
