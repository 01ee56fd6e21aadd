/** Why a document cannot be read: for the person who has added it. */
import type { IngestionErrorCode } from '../../contract/api.ts';

export class ParseFailure extends Error {
  readonly code: IngestionErrorCode;

  /** `message` says what is wrong, and what to do about it. */
  constructor(code: IngestionErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ParseFailure';
    this.code = code;
  }
}
