/** Hides secrets in settings that are shown; templates stay, since they say where a secret comes from, not what it is. */

import { isObject, objectOf } from './pointer.ts';
import { type SettingsSchema, schemaAt, schemaBelow } from './schema-marks.ts';
import { ExpansionError } from './templates/expansion-error.ts';
import { type Part, parseTemplate } from './templates/template.ts';
import { withoutSecrets } from './url-secrets.ts';

const hidden = '(hidden)';

/** The value that the keys lead to, without the secrets in it. */
export function maskSecrets(value: unknown, keys: readonly string[] = []): unknown {
  const last = keys.at(-1);
  const parent = schemaAt(keys.slice(0, -1));
  const schema = schemaAt(keys) ?? {};
  return masked(value, schema, last !== undefined && isSecret(parent, schema, last));
}

function masked(value: unknown, schema: SettingsSchema, secret: boolean): unknown {
  if (typeof value === 'string') {
    if (secret) return maskedText(value, schema);
    return schema['x-url'] ? withoutSecrets(value) : value;
  }
  const child = (key: string, item: unknown) => {
    const below = schemaBelow(schema, key) ?? {};
    return masked(item, below, isSecret(schema, below, key));
  };
  if (Array.isArray(value)) return value.map((item, index) => child(String(index), item));
  if (!isObject(value)) return value;
  return objectOf(Object.entries(value).map(([key, item]) => [key, child(key, item)] as const));
}

function isSecret(parent: SettingsSchema | null, schema: SettingsSchema, key: string): boolean {
  return schema.writeOnly === true && new RegExp(parent?.['x-secret-names'] ?? '', 'i').test(key);
}

function maskedText(text: string, schema: SettingsSchema): string {
  const parts = schema['x-expand'] ? partsOf(text) : [];
  if (parts.every(({ kind }) => kind === 'text')) return hidden;
  const shownParts = maskedParts(parts);
  return shownParts.includes(hidden) ? shownParts : text;
}

/** Nothing of a template that cannot be read: where its secret begins is not known. */
function partsOf(template: string): readonly Part[] {
  try {
    return parseTemplate(template);
  } catch (error) {
    if (!(error instanceof ExpansionError)) throw error;
    return [];
  }
}

/** The reader gives text letter by letter; what stands between two templates is looked at as a whole. */
function maskedParts(parts: readonly Part[]): string {
  const pieces: string[] = [];
  let text = '';
  const endText = () => {
    pieces.push(isHarmless(text) ? text : hidden);
    text = '';
  };
  for (const part of parts) {
    if (part.kind === 'text') text += part.text;
    else {
      endText();
      pieces.push(shown(part));
    }
  }
  endText();
  return pieces.join('');
}

/** What every header of its kind begins with, and signs between two templates. */
function isHarmless(text: string): boolean {
  return /^(\s*(basic|bearer|token))?[\s:;,=@/-]*$/i.test(text);
}

function shown(part: Exclude<Part, { kind: 'text' }>): string {
  if (part.kind === 'command') return `$(${part.command})`;
  if (part.kind === 'variable') return `$\{${part.name}}`;
  if (part.kind === 'demanded') return `$\{${part.name}:?…}`;
  return `$\{${part.name}:-${part.otherwise.length > 0 ? maskedParts(part.otherwise) : ''}}`;
}
