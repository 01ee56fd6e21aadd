/** Turns what a validator says into the places and sentences of a Problem. */
import type { ErrorObject } from 'ajv';
import type { FieldError } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { shorten } from './query-string.ts';

/** More would not help the reader, and a hostile body can have a hundred thousand. */
const maxErrors = 20;

/** One Problem for all the places. */
export function invalidRequest(errors: readonly FieldError[]): Problem {
  const shown = errors.slice(0, maxErrors);
  return new Problem('invalid_request', sentenceOf(errors), { errors: shown });
}

/** The place and the sentence of one error about the body. */
export function bodyError(error: ErrorObject, pointer: string): FieldError {
  return {
    in: 'body',
    pointer: pointerOf(error, pointer),
    message: messageOf(error),
    code: error.keyword,
  };
}

/** What was expected, in words. */
export function messageOf(error: ErrorObject): string {
  const parameters: Record<string, unknown> = error.params;
  if (error.keyword === 'required') return 'is required';
  if (error.keyword === 'additionalProperties') return 'is not a known member';
  if (error.keyword === 'enum' && Array.isArray(parameters.allowedValues))
    return `must be one of ${parameters.allowedValues.join(', ')}`;
  if (error.keyword === 'const') return `must be ${JSON.stringify(parameters.allowedValue)}`;
  return error.message ?? 'does not match the contract';
}

/** Where it is: a missing or an unknown member is named itself, not the object around it. */
function pointerOf(error: ErrorObject, pointer: string): string {
  const parameters: Record<string, unknown> = error.params;
  const member = parameters.missingProperty ?? parameters.additionalProperty ?? error.propertyName;
  const suffix = typeof member === 'string' ? `/${member.replaceAll('~', '~0').replaceAll('/', '~1')}` : '';
  return shorten(`${pointer}${suffix}`);
}

function sentenceOf(errors: readonly FieldError[]): string {
  const first = errors.slice(0, 3).map((error) => `${placeOf(error)}: ${error.message}`);
  const more = errors.length > first.length ? [`and ${errors.length - first.length} more`] : [];
  return [...first, ...more].join('; ');
}

function placeOf(error: FieldError): string {
  return error.in === 'body' ? `body${error.pointer ?? ''}` : `${error.in} ${error.name ?? ''}`;
}
