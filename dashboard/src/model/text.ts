// Text from data: names, messages and logs are chosen by users and may contain anything.

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const UNSAFE_BLOCK = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const TERMINAL = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

function code(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** One line of text: characters that are invisible or change the direction of others are written as their codes. */
export function printable(text: string): string {
  return text.replace(UNSAFE, code);
}

/** Several lines of text, without the control sequences of terminals. */
export function printableBlock(text: string): string {
  return text.replace(TERMINAL, "").replace(/\r\n/g, "\n").replace(UNSAFE_BLOCK, code);
}

/** At most this many characters, so that a table stays small whatever it is given. */
export function shortened(text: string, most = 200): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** "1 job", "2 jobs". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}
