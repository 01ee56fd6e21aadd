/** What a query was given out of a corpus: kept with its run, which goes on with it wherever it goes on. */
import type { PassageHit } from '../contract/api.ts';

export interface GivenPassages {
  readonly corpusId: string;
  /** It was given none, and may search itself: an agent that does an errand for a query with a corpus. */
  readonly isInherited?: boolean;
  /** The best first. */
  readonly passages: readonly PassageHit[];
  /** Why the search for them could do less than was asked; null where it could not. */
  readonly notice: string | null;
}
