// A question that must be answered before something is done.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProps {
  title: string;
  children: ComponentChildren;
  confirm: string;
  busy?: boolean;
  danger?: boolean;
  disabled?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** What is said when the reader does not wait for an answer: what was asked may have been done. */
export const UNKNOWN_END = "Stopped waiting for the answer. Look whether it was done before you try again.";

/** A modal dialog. The browser keeps the focus inside and returns it; Escape closes it, and ends a call that is made. */
export function Dialog(props: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      // The browser returns the focus only if the dialog is still part of the page.
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const cancelled = (event: Event): void => {
    event.preventDefault();
    props.onClose();
  };
  return (
    <dialog ref={element} aria-labelledby="dialog-title" onCancel={cancelled}>
      <h2 id="dialog-title">{props.title}</h2>
      <div class="dialog-body">{props.children}</div>
      <div class="dialog-foot">
        <button type="button" onClick={props.onClose}>
          {props.busy ? "Stop waiting" : "Back"}
        </button>
        <button
          type="button"
          class={props.danger ? "danger" : "primary"}
          onClick={props.onConfirm}
          disabled={props.busy || props.disabled}
        >
          {props.busy ? "Working…" : props.confirm}
        </button>
      </div>
    </dialog>
  );
}
