/** Why a language server is of no use now. */

import { memberOf } from './server-requests.ts';
import { startOf } from './start-of-text.ts';

/** Its message is for the model and for people. */
export class LanguageServerFailure extends Error {
  override readonly name = 'LanguageServerFailure';
}

/** It did not answer in time, which a busy one does not either. */
export class LanguageServerSilence extends LanguageServerFailure {}

/** Codes of the protocol's errors (LSP 3.17, `LSPErrorCodes`). */
const serverCancelled = -32802;
const contentModified = -32801;

/** It answered with an error. */
export class LanguageServerRefusal extends LanguageServerFailure {
  /** Whether it says that the same request may well be answered later: what it is about has changed meanwhile. */
  readonly canBeRepeated: boolean;

  constructor(method: string, error: unknown) {
    super(`it answered ${method} with an error: ${reasonOf(error)}`, { cause: error });
    const [code, data] = [memberOf(error, 'code'), memberOf(error, 'data')];
    const isCancelled = code === serverCancelled && memberOf(data, 'retriggerRequest') !== false;
    this.canBeRepeated = isCancelled || code === contentModified;
  }
}

/** What an error says, in a line. */
export function reasonOf(error: unknown): string {
  const said = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ');
  return startOf(said, 300);
}
