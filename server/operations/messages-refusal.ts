/** Refuses a Messages request at the place where it is wrong. */
import { Problem } from '../problem.ts';

/** A Problem for one place of the body: a JSON Pointer, such as `/messages/0/content/1/source`. */
export function refusal(pointer: string, message: string, code: string): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code }],
  });
}

/** The value where it is there; else a refusal that names the member. */
export function required<T>(value: T | null | undefined, pointer: string): T {
  if (value === null || value === undefined) throw refusal(pointer, 'is required', 'required');
  return value;
}
