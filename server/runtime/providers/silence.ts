/** How long a provider may say nothing before its answer counts as lost. */

/** An answer of so many tokens comes within the time that a provider may be silent. */
export const tokensInSilence = 2048;

/** The vendors' own clients wait no longer for an answer in one piece. */
const longestWholeMs = 600_000;

/** How long an answer of so many tokens may take that comes in one piece: nothing is heard of it before its end. */
export function wholeAnswerMs(silenceMs: number, maxTokens: number): number {
  const needed = silenceMs * Math.ceil(maxTokens / tokensInSilence);
  return Math.max(silenceMs, Math.min(needed, longestWholeMs));
}

/** Aborts unless something is heard in time, again and again, until its end; and where the caller's own signal does, if there is one. */
export class Silence {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;
  readonly limitMs: number;

  constructor(limitMs: number, caller?: AbortSignal) {
    this.limitMs = limitMs;
    this.#timer = setTimeout(() => this.#controller.abort(), limitMs);
    this.#caller = caller;
    if (caller?.aborted) this.#onAbort();
    else caller?.addEventListener('abort', this.#onAbort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(): void {
    this.#timer.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => this.#controller.abort(this.#caller?.reason);
}
