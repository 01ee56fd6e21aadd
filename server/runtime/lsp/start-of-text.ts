/** The start of what a language server has said, which may have megabytes. */

/** A copy: the engine keeps the whole of a text for as long as anybody has a piece of it. */
export function startOf(text: string, longest: number): string {
  return Buffer.from(text.slice(0, longest)).toString();
}
