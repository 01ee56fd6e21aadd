/** List cursors: where a page ended, signed together with the list, the filters, the order and who asked. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Problem } from '../problem.ts';

/** The sort column and then the id of the last entry. */
export type Position = readonly (number | string)[];

export interface Cursors {
  /** `binding` is whatever must be the same for the next page. */
  encode(binding: unknown, position: Position): string;
  /** The position in a cursor of ours for this very list; anything else is refused. */
  decode(binding: unknown, cursor: string): Position;
}

const signatureBytes = 16;

export function createCursors(key: string): Cursors {
  const sign = (binding: unknown, position: string): Buffer =>
    createHmac('sha256', key)
      .update(JSON.stringify([binding, position]))
      .digest()
      .subarray(0, signatureBytes);
  return {
    encode(binding, position) {
      const text = JSON.stringify(position);
      return Buffer.concat([sign(binding, text), Buffer.from(text)]).toString('base64url');
    },
    decode(binding, cursor) {
      const bytes = Buffer.from(cursor, 'base64url');
      const text = bytes.subarray(signatureBytes).toString();
      const given = bytes.subarray(0, signatureBytes);
      // Node reads base64url leniently: only the one spelling that we write is ours.
      const genuine =
        given.length === signatureBytes &&
        bytes.toString('base64url') === cursor &&
        timingSafeEqual(given, sign(binding, text));
      if (!genuine) throw invalidCursor();
      // The signature says that `encode` wrote this.
      return JSON.parse(text) as Position;
    },
  };
}

function invalidCursor(): Problem {
  return new Problem(
    'invalid_cursor',
    'The cursor does not belong to this list with these filters and this order; begin again without a cursor.',
    { errors: [{ in: 'query', name: 'cursor', message: 'A next_cursor of the same list.', code: 'cursor' }] },
  );
}
