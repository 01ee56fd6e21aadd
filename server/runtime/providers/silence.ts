/** How long a provider may say nothing before its answer counts as lost. */

/** Aborts unless something is heard in time, again and again, until its end; and where the caller's own signal does, if there is one. */
export class Silence {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;

  constructor(limitMs: number, caller?: AbortSignal) {
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
