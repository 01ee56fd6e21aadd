/** What is odd about settings only when their files are seen together. */
import type { ClientConfig, McpServer } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import type { SettingsLayer } from './loaded-settings.ts';
import { merge } from './merge.ts';
import { pointerKeys, pointerTo, valueAt } from './pointer.ts';
import { type MarkedValue, markedValues } from './schema-marks.ts';

/** Where a file that nobody trusts turns on again what a farther one turned off. It counts, but must not be a surprise. */
export function takenBack(layers: readonly SettingsLayer[]): Diagnostic[] {
  return layers.flatMap((layer, index) => {
    if (layer.trusted) return [];
    const guards = [...markedValues(layer.config)].filter(({ schema }) => schema['x-guard'] !== undefined);
    if (guards.length === 0) return [];
    const farther = merge(layers.slice(0, index).map(({ config }) => config)).config;
    return guards.flatMap((guard) => {
      const lost = lostOf(guard, valueAt(farther, guard.keys));
      return lost === null ? [] : [takenBackAt(layer, guard, lost)];
    });
  });
}

/** What of the farther value counts no more, in words; null where it all stands. */
function lostOf({ schema, value }: MarkedValue, farther: unknown): string | null {
  if (Array.isArray(farther)) {
    const kept: readonly unknown[] = Array.isArray(value) ? value : [];
    const lost = farther.filter((name) => !kept.includes(name));
    return lost.length > 0 ? lost.map((name) => JSON.stringify(name)).join(', ') : null;
  }
  const guard = schema['x-guard'];
  return farther === guard && value !== guard ? JSON.stringify(guard) : null;
}

function takenBackAt(layer: SettingsLayer, { keys }: MarkedValue, lost: string): Diagnostic {
  const pointer = pointerTo(keys);
  const key = keys.join('.');
  return {
    severity: 'warning',
    place: layer.place(pointer),
    pointer: layer.pointerInFile(pointer),
    message: `This file, which is not trusted, takes back what a farther file says of ${key}: ${lost}`,
    expected: null,
    remedy: `\`service config explain ${key}\` shows both; remove the one that is not meant.`,
  };
}

/** Servers that nothing can reach. Whether they can is known only when every file has said its part. */
export function serverWarnings({ mcp = {} }: ClientConfig, layers: readonly SettingsLayer[]): Diagnostic[] {
  return Object.entries(mcp).flatMap(([name, server]) => {
    const lacking = lackingIn(server);
    if (!lacking) return [];
    const pointer = pointerTo(['mcp', name]);
    const layer = layers.findLast(({ config }) => valueAt(config, pointerKeys(pointer)) !== undefined);
    return [
      {
        severity: 'warning',
        place: layer?.place(pointer) ?? null,
        pointer: layer?.pointerInFile(pointer) ?? pointer,
        expected: null,
        ...lacking,
      } as const,
    ];
  });
}

function lackingIn({
  type = 'stdio',
  command,
  url,
  disabled,
}: McpServer): Pick<Diagnostic, 'message' | 'remedy'> | null {
  if (disabled) return null;
  if (type === 'stdio' && command === undefined) {
    return {
      message: 'This server has no command, and cannot be started',
      remedy: 'Add "command", or, if it is reached at a url, "type": "http".',
    };
  }
  if (type === 'stdio' || url !== undefined) return null;
  return { message: `This server of type ${type} has no url, and cannot be reached`, remedy: 'Add "url".' };
}
