/** Why a language server is of no use now. */

/** Its message is for the model and for people. */
export class LanguageServerFailure extends Error {
  override readonly name = 'LanguageServerFailure';
}

/** It did not answer in time, which a busy one does not either. */
export class LanguageServerSilence extends LanguageServerFailure {}

/** What an error says, in a line. */
export function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').slice(0, 300);
}
