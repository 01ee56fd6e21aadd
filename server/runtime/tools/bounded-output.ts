// Keeps the beginning and the end of an output of any length, and shows it to people at a bearable pace.

/** The middle is what a reader misses least: causes stand at the start, results at the end. */
export class BoundedOutput {
  readonly #half: number;
  #head = '';
  #tail = '';
  #length = 0;

  constructor(maxLength: number) {
    this.#half = Math.floor(maxLength / 2);
  }

  push(text: string): void {
    this.#length += text.length;
    const room = this.#half - this.#head.length;
    this.#head += text.slice(0, room);
    const rest = text.slice(room);
    this.#tail += rest;
    if (this.#tail.length > 2 * this.#half) this.#tail = this.#tail.slice(-this.#half);
  }

  /** The whole output, or its two ends with a note of what lies between. */
  text(): string {
    const tail = this.#tail.slice(-this.#half);
    const dropped = this.#length - this.#head.length - tail.length;
    if (dropped <= 0) return this.#head + tail;
    return `${this.#head.toWellFormed()}\n\n… (${dropped} characters left out: to see them, send the output to a file and view or grep that) …\n\n${tail.toWellFormed()}`;
  }
}

const PACE_MS = 100;
const MAX_PIECE_LENGTH = 4000;
const MAX_SHOWN_LENGTH = 200_000;

/** Passes output on ten times a second at most, and stops where nobody would read on. */
export class PacedProgress {
  #show: ((text: string) => void) | null;
  #waiting = '';
  #shownLength = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(show: (text: string) => void) {
    this.#show = show;
  }

  push(text: string): void {
    if (!this.#show || this.#shownLength > MAX_SHOWN_LENGTH) return;
    this.#waiting = (this.#waiting + text).slice(-MAX_PIECE_LENGTH);
    this.#timer ??= setTimeout(() => this.#flush(), PACE_MS);
  }

  /** Shows what is waiting, and lets go of whoever it was shown to: a command may go on for hours after its run. */
  end(): void {
    this.#flush();
    this.#show = null;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const piece = this.#waiting.toWellFormed().replaceAll('\u0000', '\uFFFD');
    this.#waiting = '';
    if (piece === '') return;
    this.#shownLength += piece.length;
    this.#show?.(
      this.#shownLength > MAX_SHOWN_LENGTH ? '\n… (more output is not shown while it runs) …\n' : piece,
    );
  }
}

/** Output that waits to be read; where nobody reads, the oldest is dropped. */
export class UnreadOutput {
  readonly #maxLength: number;
  #text = '';
  #dropped = 0;

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** How much waits. */
  get length(): number {
    return this.#text.length;
  }

  push(text: string): void {
    this.#text += text;
    // Only now and then: cutting at every piece would copy the whole each time.
    if (this.#text.length > 2 * this.#maxLength) this.#cut();
  }

  /** What waits, with a note of what was dropped before it; it waits no longer. */
  take(): string {
    this.#cut();
    const text = this.#text.toWellFormed();
    const note =
      this.#dropped > 0
        ? `… (${this.#dropped} characters left out before this: ask more often, or have the command write to a file) …\n\n`
        : '';
    this.#text = '';
    this.#dropped = 0;
    return note + text;
  }

  #cut(): void {
    const over = this.#text.length - this.#maxLength;
    if (over <= 0) return;
    this.#dropped += over;
    this.#text = this.#text.slice(over);
  }
}
