/** What a query was given out of a corpus: kept with its run, which goes on with it wherever it goes on. */
import type { PassageHit } from '../contract/api.ts';

export interface GivenPassages {
  readonly corpusId: string;
  /** The best first. */
  readonly passages: readonly PassageHit[];
  /** Why the search for them could do less than was asked; null where it could not. */
  readonly notice: string | null;
}
