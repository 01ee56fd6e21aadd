/** Reads the schema of the settings file for the loader: what stands where, and the marks that say how it is treated. */
import { schema } from '../contract/settings-validator.js';

/** A part of the schema, references followed: what it describes, and the loader's marks. */
export interface SettingsSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly enumDescriptions?: readonly string[];
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly deprecated?: boolean;
  readonly deprecationMessage?: string;
  readonly properties?: Readonly<Record<string, SettingsSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: SettingsSchema | boolean;
  readonly items?: SettingsSchema;
  readonly $ref?: string;
  /** Counts only in files that are trusted. */
  readonly 'x-restricted'?: boolean;
  /**
   * Goes to a provider as it is, and counts only in files that are trusted too: some providers reach servers, choose
   * models or take instructions by it, which is what the restricted sections would do.
   */
  readonly 'x-passed-on'?: boolean;
  /** Lists of several files are put together, not replaced. */
  readonly 'x-merge'?: 'append';
  /** Another name of the key beside it. */
  readonly 'x-alias-of'?: string;
  /** Values that mean the same as others. */
  readonly 'x-aliases'?: Readonly<Record<string, string>>;
  /** The key that took over, and what this one's values are called there. */
  readonly 'x-replaced-by'?: { readonly key: string; readonly values: Readonly<Record<string, unknown>> };
  /** A path that must stay inside the project in files that are not trusted. */
  readonly 'x-confined'?: boolean;
  readonly 'x-regexp'?: string;
  /** A template: variables and commands in it are replaced at the moment of use. */
  readonly 'x-expand'?: boolean;
  /** A secret: taken, and never shown again. */
  readonly writeOnly?: boolean;
  /** A URL, which may hold a password, or a key among its parameters: those are hidden where it is shown. */
  readonly 'x-url'?: boolean;
  /** Which names in a map are those of secrets; the other values may be shown to whoever is asked to trust them. */
  readonly 'x-secret-names'?: string;
  /** What a farther file guards by: this value, or, of a list, each of its names. Taking it back is told. */
  readonly 'x-guard'?: string | boolean;
}

/** Whether it counts only in files that are trusted. */
export function needsTrust(schema: SettingsSchema | null): boolean {
  return schema?.['x-restricted'] === true || schema?.['x-passed-on'] === true;
}

/** Whether what the keys lead to counts only in files that are trusted, by itself or by what it stands in. */
export function needsTrustAt(keys: readonly string[]): boolean {
  return keys.some((_, index) => needsTrust(schemaAt(keys.slice(0, index + 1))));
}

/** A value with the place that it has in the settings and in the schema. */
export interface MarkedValue {
  readonly keys: readonly string[];
  readonly schema: SettingsSchema;
  readonly value: unknown;
}

/** The schema of a whole settings file. */
export const settingsSchema = schema as SettingsSchema & {
  readonly definitions: Readonly<Record<string, SettingsSchema>>;
}; // codegen's tests hold it to this shape

/** What the schema says of a key or an item of the value it describes; null where there can be none. */
export function schemaBelow(parent: SettingsSchema, key: string): SettingsSchema | null {
  const known = parent.properties && Object.hasOwn(parent.properties, key) ? parent.properties[key] : null;
  if (known) return followed(known);
  if (parent.items) return /^(0|[1-9][0-9]*)$/.test(key) ? followed(parent.items) : null;
  const { additionalProperties } = parent;
  if (typeof additionalProperties === 'object') return followed(additionalProperties);
  // Below an object whose content is the user's, all is allowed and nothing is described.
  return additionalProperties === true || Object.keys(parent).length === 0 ? {} : null;
}

/** What the schema says of the value that the keys lead to; null where there can be none. */
export function schemaAt(keys: readonly string[]): SettingsSchema | null {
  return keys.reduce<SettingsSchema | null>((at, key) => at && schemaBelow(at, key), settingsSchema);
}

/** Every value of a settings file that the schema describes, the whole first, each before what it holds. */
export function* markedValues(
  value: unknown,
  at: SettingsSchema = settingsSchema,
  keys: readonly string[] = [],
): Generator<MarkedValue> {
  yield { keys, schema: at, value };
  if (typeof value !== 'object' || value === null) return;
  for (const [key, child] of Object.entries(value)) {
    const below = schemaBelow(at, key);
    if (below && Object.keys(below).length > 0) yield* markedValues(child, below, [...keys, key]);
  }
}

function followed(found: SettingsSchema): SettingsSchema {
  if (found.$ref === undefined) return found;
  const target = settingsSchema.definitions[found.$ref.replace('#/definitions/', '')];
  if (!target) throw new Error(`The schema of the settings has no ${found.$ref}`);
  return target;
}
