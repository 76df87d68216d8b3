// Times of the server, shown in the reader's time zone.
import { durationText } from "./amounts";

let skew = 0;

/** Learns how far this machine's clock is from the server's, so that "3 min" is not wrong on a wall screen. */
export function learnClock(asOf: string): void {
  const server = Date.parse(asOf);
  if (Number.isNaN(server)) return;
  const found = server - Date.now();
  skew = Math.abs(found) > 5000 ? found : 0;
}

/** Now, by the server's clock, in milliseconds. */
export function now(): number {
  return Date.now() + skew;
}

const two = (value: number): string => String(value).padStart(2, "0");

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The day as `17 Nov`, with the year unless it is this one; empty for today. */
export function dayText(text: string | undefined, at = now()): string {
  const when = new Date(text ?? "");
  const today = new Date(at);
  if (Number.isNaN(when.getTime()) || when.toDateString() === today.toDateString()) return "";
  const year = when.getFullYear() === today.getFullYear() ? "" : ` ${when.getFullYear()}`;
  return `${when.getDate()} ${MONTHS[when.getMonth()] ?? ""}${year}`;
}

/** A time as `14:03`, with the day unless it is today; not by Intl, which fails on odd locales. */
export function clockText(text: string | undefined, seconds = false, at = now()): string {
  const when = new Date(text ?? "");
  if (Number.isNaN(when.getTime())) return "";
  const clock = `${two(when.getHours())}:${two(when.getMinutes())}${seconds ? `:${two(when.getSeconds())}` : ""}`;
  const day = dayText(text, at);
  return day ? `${day} ${clock}` : clock;
}

const INSTANT = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** A sentence of the server with its times in the reader's time zone. */
export function localTimes(text: string): string {
  return text.replace(INSTANT, (found) => clockText(found));
}

/** How long ago a time was; empty if it is unknown. */
export function agoText(text: string | undefined, at = now()): string {
  const when = Date.parse(text ?? "");
  return Number.isNaN(when) ? "" : durationText((at - when) / 1000);
}
