// Short messages about what the reader did, shown for a while and read out by screen readers.
import { useEffect, useReducer } from "preact/hooks";

export interface Notice {
  id: number;
  text: string;
  bad: boolean;
}

const SHOWN_MILLIS = 8000;
let notices: Notice[] = [];
let last = 0;
const listeners = new Set<() => void>();

function changed(next: Notice[]): void {
  notices = next;
  listeners.forEach((listener) => listener());
}

export function dismiss(id: number): void {
  changed(notices.filter((notice) => notice.id !== id));
}

/** Shows a message; an error stays until it is dismissed. */
export function notify(text: string, bad = false): void {
  const id = (last += 1);
  changed([...notices.slice(-3), { id, text, bad }]);
  if (!bad) window.setTimeout(() => dismiss(id), SHOWN_MILLIS);
}

export function useNotices(): readonly Notice[] {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const listener = (): void => redraw(0);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, []);
  return notices;
}
