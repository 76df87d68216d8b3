// Reads the server's stream of events, and connects again when it ends.
import { CallError, send } from "./calls";
import { EventParser } from "./events";
import type { ServerEvent } from "./events";

/** The server sends at least a comment every 15 seconds. */
export const SILENCE_MILLIS = 40_000;
const DELAY_MIN = 1000;
const DELAY_MAX = 30_000;

export interface StreamListener {
  opened(): void;
  received(event: ServerEvent): void;
  lost(problem: string, nextTry: number): void;
  ended(message: string): void;
}

/** A connection that is kept up until the session ends. */
export class Stream {
  private attempt: AbortController | null = null;
  private delay = DELAY_MIN;
  private timer = 0;
  private closed = false;

  constructor(private readonly listener: StreamListener) {}

  /** Connects now, whatever the delay. */
  connect(): void {
    if (this.closed) return;
    window.clearTimeout(this.timer);
    this.attempt?.abort();
    const attempt = new AbortController();
    this.attempt = attempt;
    void this.read(attempt).catch((error: unknown) => {
      if (this.attempt === attempt) this.fail(error);
    });
  }

  private async read(attempt: AbortController): Promise<void> {
    let silence = 0;
    const heard = (): void => {
      window.clearTimeout(silence);
      silence = window.setTimeout(
        () => attempt.abort(new Error("the server has sent nothing for 40 seconds")),
        SILENCE_MILLIS,
      );
    };
    try {
      heard();
      const response = await send("stream", { signal: attempt.signal, headers: { Accept: "text/event-stream" } });
      if (!response.body) throw new CallError(0, "the server sent no stream");
      this.listener.opened();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new CallError(0, "the server has closed the connection");
        heard();
        for (const event of parser.push(value)) {
          this.delay = DELAY_MIN;
          if (this.attempt === attempt) this.listener.received(event);
        }
      }
    } finally {
      window.clearTimeout(silence);
    }
  }

  private fail(error: unknown): void {
    if (error instanceof CallError && error.status === 401) {
      this.closed = true;
      this.listener.ended(error.message);
      return;
    }
    // Clients that lost the same server do not all return in the same instant.
    const wait = this.delay * (0.8 + 0.4 * Math.random());
    this.delay = Math.min(this.delay * 2, DELAY_MAX);
    this.listener.lost(problemOf(error), Date.now() + wait);
    this.timer = window.setTimeout(() => this.connect(), wait);
  }
}

function problemOf(error: unknown): string {
  if (error instanceof CallError) return error.message;
  if (error instanceof Error && error.message.startsWith("the server")) return error.message;
  return "the connection was lost";
}
