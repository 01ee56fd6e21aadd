/** Tells whether anything was written that somebody could have read: what was read before needs not be read again. */
import type { CommitCounter } from './commit-counter.ts';

/**
 * Every commit is a change, whoever made it, but those of this process that store only what nobody remembers: what was
 * used, and what runs say and do. Each of them is announced before it commits, and counted when it has: as long as the
 * number of commits is what was read once and those since, nobody else has written. Several may be under way at once, as one
 * is told late that its commit is over.
 */
export class Unchanged {
  readonly #counter: CommitCounter;
  #known: number | null = null;
  #version = 0;
  #committing = 0;
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
    // This one is their own, or that of another, should theirs fail.
    if (this.#committing > 0) return null;
    this.#known = now;
    this.#version += 1;
    return this.#version;
  }

  /** A transaction that may be such a one begins. */
  begin(): void {
    this.#forget();
    const now = this.#counter.read();
    if (now !== this.#known) this.#version += 1;
    this.#known = now;
  }

  /** It has written something, but nothing that is remembered, and commits. Answers with what its end is told of. */
  announce(): number {
    this.#forget();
    this.#committing += 1;
    return this.#version;
  }

  /** It has committed, or could not; null where it was not announced. */
  end(announced: number | null, committed: boolean): void {
    this.#forget();
    if (announced === null) return;
    this.#committing -= 1;
    // Where the number was read anew since, its commit may be in it: counted twice, it would hide that of another.
    if (!committed || this.#known === null || announced !== this.#version) return;
    const now = this.#counter.read();
    // Where files and memory are two things, nothing can be remembered.
    if (now === this.#known) this.#follows = false;
    else if (now !== null) this.#follows ??= true;
    this.#known += 1;
  }
}
