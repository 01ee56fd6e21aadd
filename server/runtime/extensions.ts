/** The extensions of a runtime, as one list. */
import type { Extension, ExtensionParts } from './extension.ts';

/** Builds them all; none starts anything before it is needed. */
export function createExtensions(_parts: ExtensionParts): readonly Extension[] {
  return [];
}
