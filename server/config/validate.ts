/** Holds a settings file against its schema and says all that differs, each with its place and its remedy. */
import type { ErrorObject } from 'ajv';
import type { Node } from 'jsonc-parser';
import { validate as check } from '../contract/settings-validator.js';
import type { Diagnostic } from './diagnostic.ts';
import { maximumDiagnostics, type SettingsDocument } from './document.ts';
import { nearest } from './nearest.ts';
import { pointerPart } from './pointer.ts';

/** The parts of a schema that explain what should have been written. */
interface Explanation {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly examples?: readonly unknown[];
  readonly default?: unknown;
  readonly errorMessage?: string;
}

/** What differs from the schema, and the JSON pointers of all keys that it does not know. */
export interface Violations {
  readonly diagnostics: readonly Diagnostic[];
  readonly unknown: readonly string[];
}

/** Everything in which the document differs from the schema. Unknown keys are warnings, all else is an error. */
export function validate(document: SettingsDocument): Violations {
  const breaches = check(document.value)
    ? []
    : (check.errors ?? []).filter(({ keyword }) => keyword !== 'if');
  const [strange, wrong] = partition(breaches, ({ keyword }) => keyword === 'additionalProperties');
  const told = new Set<string>();
  // Errors before warnings: only they keep the file from being used.
  const diagnostics = [...wrong, ...strange]
    .slice(0, maximumDiagnostics)
    .map((error) => ({ error, found: explain(error, document) }))
    .filter(({ error, found }) => {
      // A value of the wrong type breaks other rules too; the first says enough.
      const key = `${found.pointer} ${ownPlace(error) ? error.keyword : ''}`;
      return !told.has(key) && told.add(key);
    })
    .map(({ found }) => found);
  return {
    diagnostics: [...diagnostics, ...untold(breaches, document)],
    unknown: strange.map(unknownPointer),
  };
}

function partition<Item>(items: readonly Item[], belongs: (item: Item) => boolean): [Item[], Item[]] {
  return [items.filter(belongs), items.filter((item) => !belongs(item))];
}

/** That more is wrong than is told. */
function untold(breaches: readonly ErrorObject[], document: SettingsDocument): Diagnostic[] {
  if (breaches.length <= maximumDiagnostics) return [];
  const [first] = breaches;
  return [
    {
      severity: 'warning',
      place: document.place(document.node(first?.instancePath ?? '')?.offset ?? 0),
      pointer: '',
      message: `${breaches.length - maximumDiagnostics} more places in this file are not as they must be`,
      expected: null,
      remedy: 'Mend those that are named first.',
    },
  ];
}

function unknownPointer({ instancePath, params }: ErrorObject): string {
  return `${instancePath}/${pointerPart(String(params.additionalProperty))}`;
}

function ownPlace({ keyword }: ErrorObject): boolean {
  return keyword === 'required' || keyword === 'additionalProperties';
}

function explain(error: ErrorObject, document: SettingsDocument): Diagnostic {
  const rules = (error.parentSchema ?? {}) as Explanation; // the schema is ours, and has these parts
  const params = error.params as Record<string, unknown>; // each keyword has its own
  if (error.keyword === 'additionalProperties') {
    return unknownKey(error.instancePath, String(params.additionalProperty), rules, document);
  }
  if (error.keyword === 'required') {
    return missingKey(error.instancePath, String(params.missingProperty), rules, document);
  }
  const node = document.node(error.instancePath);
  const place = document.place(node?.offset ?? 0);
  if (error.keyword === 'not') return { ...forbidden(rules), place, pointer: error.instancePath };
  return {
    severity: 'error',
    place,
    pointer: error.instancePath,
    message: wrong(error.keyword, node),
    expected: expected(error.keyword, params, rules),
    remedy: remedy(rules, node),
  };
}

/** A rule that forbids says why and what to do in the schema itself: one sentence, and then others. */
function forbidden({
  errorMessage = '',
}: Explanation): Pick<Diagnostic, 'severity' | 'message' | 'expected' | 'remedy'> {
  const [first = '', ...rest] = errorMessage.split(/(?<=\.) (?=[A-Z])/);
  const [message, remedy] =
    rest.length > 0 ? [first.replace(/\.$/, ''), rest.join(' ')] : ['This cannot be used as it is', first];
  return { severity: 'error', message, expected: null, remedy: remedy || 'Remove it.' };
}

function unknownKey(parent: string, key: string, rules: Explanation, document: SettingsDocument): Diagnostic {
  const known = Object.keys(rules.properties ?? {});
  const meant = nearest(key, known);
  const pointer = `${parent}/${pointerPart(key)}`;
  // The key itself is the place, not its value.
  const offset = document.node(pointer)?.parent?.offset ?? 0;
  return {
    severity: 'warning',
    place: document.place(offset),
    pointer,
    message: `The key ${JSON.stringify(key)} is not known, and has no effect`,
    expected: meant ? null : `one of ${known.join(', ')}`,
    remedy: meant ? `Did you mean ${JSON.stringify(meant)}?` : 'Remove it.',
  };
}

function missingKey(parent: string, key: string, rules: Explanation, document: SettingsDocument): Diagnostic {
  const example = exampleOf((rules.properties?.[key] ?? {}) as Explanation); // a property is a schema
  return {
    severity: 'error',
    place: document.place(document.node(parent)?.offset ?? 0),
    pointer: parent,
    message: `The key ${JSON.stringify(key)} is missing`,
    expected: null,
    remedy: `Add ${JSON.stringify(key)}: ${example ?? '…'}.`,
  };
}

function wrong(keyword: string, node: Node | undefined): string {
  if (keyword === 'type') return `This is ${kinds[node?.type ?? ''] ?? 'something else'}`;
  if (keyword === 'minLength') return 'This is empty';
  if (keyword === 'enum') return 'This is none of the values that are known';
  if (keyword === 'pattern') return 'This is not written as it must be';
  if (keyword === 'not') return 'This cannot be used as it is';
  return 'This number is out of range';
}

const kinds: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
};

function expected(keyword: string, params: Record<string, unknown>, rules: Explanation): string | null {
  if (keyword === 'type') {
    const types = typeof rules.type === 'string' ? [rules.type] : (rules.type ?? []);
    return types.map((type) => kinds[type] ?? type).join(' or ');
  }
  if (keyword === 'enum')
    return `one of ${(rules.enum ?? []).map((value) => JSON.stringify(value)).join(', ')}`;
  if (keyword === 'minLength') return 'a string that is not empty';
  if (keyword === 'not') return null; // the remedy says what is missing
  if (keyword === 'pattern') return `a string that matches ${String(params.pattern)}`;
  return `a number ${String(params.comparison)} ${String(params.limit)}`;
}

function remedy(rules: Explanation, node: Node | undefined): string {
  if (rules.errorMessage) return rules.errorMessage;
  const words = (rules.enum ?? []).filter((value) => typeof value === 'string');
  const meant = typeof node?.value === 'string' ? nearest(node.value, words) : null;
  if (meant) return `Did you mean ${JSON.stringify(meant)}?`;
  const example = exampleOf(rules);
  return example === null ? 'Write what is expected, or remove it.' : `Write, for example, ${example}.`;
}

function exampleOf({ examples, default: usual }: Explanation): string | null {
  const example = examples?.[0] ?? usual;
  return example === undefined ? null : JSON.stringify(example);
}
