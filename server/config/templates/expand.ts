/** Finds the templates in settings by the schema's mark `x-expand`, and replaces them. */
import type { Diagnostic } from '../diagnostic.ts';
import { pointerKeys, pointerTo } from '../pointer.ts';
import { markedValues, schemaAt } from '../schema-marks.ts';
import { ExpansionError } from './expansion-error.ts';
import { type Environment, previewTemplate } from './variables.ts';

/** Replaces one template. */
export type Expander = (template: string) => Promise<string>;

/**
 * What stands at the pointer of the settings, with every string replaced that the schema marks as a template; itself where
 * there is none. Throws ExpansionError.
 */
export async function expandMarked<Value>(value: Value, pointer: string, expand: Expander): Promise<Value> {
  const templates = templatesOf(value, pointer);
  if (templates.length === 0) return value;
  const values = new Map<string, string>();
  for (const { path, template } of templates) values.set(path, await expand(template));
  return replaced(value, values) as Value; // only strings were replaced, by strings
}

/** The same without running a command: what only a command can tell is `unknown`. */
export function previewMarked<Value>(
  value: Value,
  pointer: string,
  environment: Environment,
  unknown: string,
): Value {
  const values = templatesOf(value, pointer).map(
    ({ path, template }) => [path, previewTemplate(template, environment) ?? unknown] as const,
  );
  return replaced(value, new Map(values)) as Value; // only strings were replaced, by strings
}

/** A warning for each template that is broken or demands a variable that is not set. No command is run. */
export function checkTemplates(config: unknown, environment: Environment): Diagnostic[] {
  return templatesOf(config, '').flatMap(({ path, template }) => {
    try {
      previewTemplate(template, environment);
      return [];
    } catch (error) {
      if (!(error instanceof ExpansionError)) throw error;
      const { fault: message, remedy } = error;
      return [{ severity: 'warning', place: null, pointer: path, message, expected: null, remedy }];
    }
  });
}

interface Template {
  readonly path: string;
  readonly template: string;
}

/** Settings are made anew where they change: what was found in them stands. */
const found = new WeakMap<object, Map<string, readonly Template[]>>();

function templatesOf(value: unknown, pointer: string): readonly Template[] {
  if (typeof value !== 'object' || value === null) return searched(value, pointer);
  const byPointer = found.get(value) ?? new Map<string, readonly Template[]>();
  const templates = byPointer.get(pointer) ?? searched(value, pointer);
  found.set(value, byPointer.set(pointer, templates));
  return templates;
}

/** Where no dollar sign stands there is nothing to replace. */
function searched(value: unknown, pointer: string): readonly Template[] {
  const schema = schemaAt(pointerKeys(pointer));
  if (!schema) throw new Error(`The settings have nothing at ${pointer}`);
  return [...markedValues(value, schema)].flatMap(({ keys, schema: marks, value: template }) =>
    marks['x-expand'] && typeof template === 'string' && template.includes('$')
      ? [{ path: pointerTo(keys), template }]
      : [],
  );
}

function replaced(
  value: unknown,
  values: ReadonlyMap<string, string>,
  keys: readonly string[] = [],
): unknown {
  if (typeof value === 'string') return values.get(pointerTo(keys)) ?? value;
  if (typeof value !== 'object' || value === null) return value;
  const children = Object.entries(value).map(
    ([key, child]) => [key, replaced(child, values, [...keys, key])] as const,
  );
  return Array.isArray(value) ? children.map(([, child]) => child) : Object.fromEntries(children);
}
