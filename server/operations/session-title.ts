/** Names a session after what was asked in it first. */

/** A prompt may have megabytes; what makes a title stands in its first lines. */
const readLimit = 1000;

/** What a session is called that was made without a title. */
export const untitled = 'New session';

/** The begin of the prompt, in one line: a title that a person recognises. */
export function titleOf(prompt: string): string {
  // The cut may go through a pair of surrogates, half of which cannot be stored.
  const begin = prompt.trimStart().slice(0, readLimit).toWellFormed();
  const line = begin.replaceAll(/\s+/g, ' ').trim();
  return [...line].slice(0, 80).join('').trim() || untitled;
}
