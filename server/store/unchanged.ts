/** Tells whether anything was written that somebody could have read: what was read before needs not be read again. */
import type { CommitCounter } from './commit-counter.ts';

/**
 * Every commit is a change, whoever made it, but those of this process that store only what nobody remembers: what was
 * used, and what runs say and do. While such a one commits, its place in the row of all commits is known: nobody else can
 * write between its beginning and its end.
 */
export class Unchanged {
  readonly #counter: CommitCounter;
  #known: number | null = null;
  #version = 0;
  #committing = false;
  /** Whether the counter was seen to follow; null before the first commit that tells. */
  #follows: boolean | null = null;
  #asked: { readonly version: number | null } | null = null;

  constructor(counter: CommitCounter) {
    this.#counter = counter;
  }

  /**
   * The same as long as nothing has changed; null where that cannot be told. Looked for once in a turn of the engine: no
   * request that asks has come after its look, and nothing else was heard of since.
   */
  version(): number | null {
    if (!this.#asked) process.nextTick(this.#forget);
    this.#asked ??= { version: this.#look() };
    return this.#asked.version;
  }

  readonly #forget = (): void => {
    this.#asked = null;
  };

  #look(): number | null {
    if (this.#follows !== true) return null;
    const now = this.#counter.read();
    if (now === null) return null;
    if (now === this.#known) return this.#version;
    // This one is its own, or that of another, should its own fail.
    if (this.#committing) return null;
    this.#known = now;
    this.#version += 1;
    return this.#version;
  }

  /** A transaction that may be such a one holds the lock of the writer. */
  begin(): void {
    this.#forget();
    const now = this.#counter.read();
    if (now !== this.#known) this.#version += 1;
    this.#known = now;
  }

  /** It has written something, and commits. */
  commit(): void {
    this.#forget();
    this.#committing = true;
  }

  /** It has committed, or could not. */
  end(committed: boolean): void {
    this.#forget();
    const wrote = this.#committing && committed;
    this.#committing = false;
    if (!wrote || this.#known === null) return;
    const now = this.#counter.read();
    // Where files and memory are two things, nothing can be remembered.
    if (now === this.#known) this.#follows = false;
    else this.#follows ??= true;
    this.#known += 1;
  }
}
