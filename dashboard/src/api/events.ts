// Server-sent events, parsed from pieces of text of any size.

export interface ServerEvent {
  name: string;
  data: string;
}

/** Collects pieces of a stream and returns the events that are complete. */
export class EventParser {
  private pieces: string[] = [];

  /** Adds a piece; a large event arrives in many, so only the new piece is searched for the end of one. */
  push(piece: string): ServerEvent[] {
    const last = this.pieces.at(-1) ?? "";
    const joint = last.endsWith("\n") && piece.startsWith("\n");
    if (!joint && !piece.includes("\n\n")) {
      this.pieces.push(piece);
      return [];
    }
    const blocks = (this.pieces.join("") + piece).split("\n\n");
    this.pieces = [blocks.pop() ?? ""];
    return blocks.map(parseBlock).filter((event) => event !== null);
  }
}

/** One event; null for a comment or an event without data. */
export function parseBlock(block: string): ServerEvent | null {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const field = line.slice(0, colon);
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  return data.length ? { name, data: data.join("\n") } : null;
}
