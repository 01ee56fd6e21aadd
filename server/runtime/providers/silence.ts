/** How long a provider may say nothing before its answer counts as lost. */

/** Aborts unless something is heard in time, again and again, until its end. */
export class Silence {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(limitMs: number) {
    this.#timer = setTimeout(() => this.#controller.abort(), limitMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(): void {
    this.#timer.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
