/** Says exactly where a request does not match: every place, and of several forms the one that was meant. */
import type { ErrorObject } from 'ajv';
import type { FieldError } from '../contract/api.ts';
import { type DeclaredParameter, isNode, type Node } from './contract-document.ts';
import { type SchemaCompiler, schemaCompiler } from './contract-schemas.ts';
import { bodyError, messageOf } from './field-errors.ts';

/** Explains what a validator has refused; schemas are compiled when they are first needed. */
export interface Explanation {
  /** The parameters that do not match, as they came: texts by name, headers in lower case. */
  ofParameters(parameters: readonly DeclaredParameter[], given: GivenParameters): FieldError[];
  /** The places where the body does not match its schema. */
  ofBody(schema: Node, body: unknown): FieldError[];
}

/** The values of the parameters by where they stood. */
type GivenParameters = Readonly<Record<DeclaredParameter['in'], Readonly<Record<string, unknown>>>>;

/**
 * Collecting every error costs the square of their number, so that only bodies of this size are searched to the end;
 * of a larger one the first fault is told.
 */
const thoroughValues = 1_000;

export function createExplanation(): Explanation {
  const thorough = schemaCompiler({ allErrors: true });
  const quick = schemaCompiler({ allErrors: false });
  const textual = schemaCompiler({ allErrors: false, coerceTypes: true });
  return {
    ofParameters: (parameters, given) =>
      parameters.flatMap((parameter) => explainParameter(textual, parameter, given[parameter.in])),
    ofBody: (schema, body) =>
      explain(countValues(body, thoroughValues) <= thoroughValues ? thorough : quick, schema, body, ''),
  };
}

const wrappers = new WeakMap<DeclaredParameter, Node>();

function explainParameter(
  compiler: SchemaCompiler,
  parameter: DeclaredParameter,
  given: Readonly<Record<string, unknown>>,
): FieldError[] {
  const name = parameter.in === 'header' ? parameter.name.toLowerCase() : parameter.name;
  const value = given[name];
  if (value === undefined)
    return parameter.required
      ? [{ in: parameter.in, name: parameter.name, message: 'is required', code: 'required' }]
      : [];
  // Types can only be read off a text where the validator can write the result back.
  const wrapper = wrappers.get(parameter) ?? { type: 'object', properties: { value: parameter.schema } };
  wrappers.set(parameter, wrapper);
  const validate = compiler.compile(wrapper);
  if (validate({ value })) return [];
  const [error] = validate.errors ?? [];
  if (!error) return [];
  return [{ in: parameter.in, name: parameter.name, message: messageOf(error), code: error.keyword }];
}

/** The places where the value does not match the schema; none where it matches. */
function explain(compiler: SchemaCompiler, schema: Node, value: unknown, pointer: string): FieldError[] {
  const validate = compiler.compile(schema);
  if (validate(value)) return [];
  // What is wrong with a member's name is told by the error inside.
  const errors = (validate.errors ?? []).filter((error) => error.keyword !== 'propertyNames');
  const forks = errors.filter(isFork);
  const outermost = forks.filter((fork) => !forks.some((other) => other !== fork && holds(other, fork)));
  const plain = errors.filter((error) => !outermost.some((fork) => holds(fork, error)));
  return [
    ...plain.map((error) => bodyError(error, `${pointer}${error.instancePath}`)),
    ...outermost.flatMap((fork) => explainFork(compiler, fork, `${pointer}${fork.instancePath}`)),
  ];
}

function isFork(error: ErrorObject): boolean {
  return (error.keyword === 'oneOf' || error.keyword === 'anyOf') && Array.isArray(error.schema);
}

/** Whether what the error complains about lies at or below the fork. */
function holds(fork: ErrorObject, error: ErrorObject): boolean {
  return error.instancePath === fork.instancePath || error.instancePath.startsWith(`${fork.instancePath}/`);
}

function explainFork(compiler: SchemaCompiler, fork: ErrorObject, pointer: string): FieldError[] {
  const branches = (fork.schema as unknown[]).filter(isNode); // isFork has seen that it is a list
  const explained = branches.map((branch) => explain(compiler, branch, fork.data, pointer));
  const meant = explained.filter((errors) => !errors.some((error) => isWrongType(error, pointer)));
  const [best] = meant.toSorted((left, right) => left.length - right.length);
  if (best && best.length > 0) return best;
  const types = explained.flatMap((errors) => errors.filter((error) => isWrongType(error, pointer)));
  const expected = [...new Set(types.map((error) => error.message.replace(/^must be /, '')))];
  const message = expected.length > 0 ? `must be ${expected.join(' or ')}` : 'must match exactly one form';
  return [{ in: 'body', pointer, message, code: expected.length > 0 ? 'type' : fork.keyword }];
}

function isWrongType(error: FieldError, pointer: string): boolean {
  return error.code === 'type' && error.pointer === pointer;
}

/** How many values there are, counted no further than one beyond the limit. */
function countValues(value: unknown, limit: number): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const member of Object.values(value)) {
    if (count > limit) break;
    count += countValues(member, limit - count);
  }
  return count;
}
