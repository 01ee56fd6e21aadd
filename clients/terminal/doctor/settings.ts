/** Checks of the settings files: whether they can be read, what is odd in them, who else could write them, what counts. */
import { existsSync, readdirSync, type Stats, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Diagnostic, SettingsLayer } from '../../../server/config/config.ts';
import { withPlaces } from '../settings-notices.ts';
import type { Finding, Scene, SettledScene } from './examination.ts';

/** Everything that keeps the files from being used, and everything odd in them. */
export function examineFiles({ loaded, faults }: Scene): Finding[] {
  if (!loaded) return faults.map(findingOf);
  const { layers, diagnostics } = loaded;
  const read: Finding = {
    level: 'ok',
    message: layers.length === 0 ? 'No settings file is here.' : `Read: ${describeFiles(layers)}.`,
    ...(layers.length === 0 && { remedy: 'Write one with: service config set <key> <value>' }),
  };
  return [read, ...diagnostics.map(findingOf)];
}

/** A diagnostic of the settings as a finding. */
export function findingOf({ severity, message, expected, remedy, pointer, place }: Diagnostic): Finding {
  const what = expected === null ? message : `${message}; expected ${expected}`;
  const where = pointer ? `${pointer}: ` : '';
  return { level: severity === 'error' ? 'problem' : 'warning', message: `${where}${what}.`, remedy, place };
}

function describeFiles(layers: readonly SettingsLayer[]): string {
  return layers.map(({ file }) => file).join(', ');
}

/** Names that people give a settings file, and that nobody reads. */
const misspelt = /^\.?(service\.(jsonc|json5|ya?ml|toml)|services?\.config\.json|services\.json)$/i;

/** Files that look like settings files and are none. */
export function examineNames({ places }: Scene): Finding[] {
  const folders = [places.workingDirectory, places.projectRoot, dirname(places.globalFile)];
  const workspace = places.workspaceFile ? [dirname(places.workspaceFile)] : [];
  const files = [...new Set([...folders, ...workspace])].flatMap((folder) =>
    namesIn(folder)
      .filter((name) => misspelt.test(name) || isOtherCase(name))
      .map((name) => join(folder, name)),
  );
  if (files.length === 0) return [{ level: 'ok', message: 'No file has a name that only looks right.' }];
  return files.map((file) => ({
    level: 'warning',
    message: `${file} is not read.`,
    remedy: 'Settings are read from service.json and .service.json; rename it, if it holds some.',
    place: { file, line: 1, column: 1 },
  }));
}

function isOtherCase(name: string): boolean {
  return /^\.?service\.json$/i.test(name) && name !== name.toLowerCase();
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // There is no such folder, or it is not for us: the check of the files says so where it matters.
    return [];
  }
}

/** The global file counts without a question; whoever can write it decides what runs here. */
export function examineGlobalFolder({ places, environment }: Scene): Finding[] {
  const { globalFile } = places;
  const findings = [dirname(globalFile), globalFile].flatMap((path) => {
    const facts = statSync(path, { throwIfNoEntry: false });
    return facts ? ownershipFindings(path, facts) : [];
  });
  for (const name of ['XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME']) {
    const folder = environment[name];
    if (folder && resolve(folder) !== folder.replace(/\/+$/, ''))
      findings.push({
        level: 'warning',
        message: `${name} is no absolute path (${folder}), and does not count.`,
        remedy: 'Set it to an absolute path, or unset it.',
      });
  }
  if (findings.length > 0) return findings;
  const there = existsSync(globalFile) ? 'Only you can write' : 'There is no';
  return [{ level: 'ok', message: `${there} ${globalFile}.` }];
}

function ownershipFindings(path: string, facts: Stats): Finding[] {
  const place = { file: path, line: 1, column: 1 };
  if (facts.uid !== process.getuid?.() && facts.uid !== 0) {
    const message = `${path} belongs to somebody else, and what it says counts without a question.`;
    return [
      {
        level: 'problem',
        message,
        remedy: 'Make it yours, or let SERVICE_GLOBAL_CONFIG name another folder.',
        place,
      },
    ];
  }
  if ((facts.mode & 0o022) === 0) return [];
  const message = `Others can write ${path}, and what it says counts without a question.`;
  return [{ level: 'problem', message, remedy: `Run: chmod go-w '${path}'`, place }];
}

/** Secrets that stand in files themselves: in a project they are committed sooner or later. */
export async function examineSecrets({ loaded }: SettledScene): Promise<Finding[]> {
  const { hidesSecret, maskSecrets } = await import('../../../server/config/config.ts');
  const isSecret = (shown: string) => (isUrl(shown) ? hidesSecret(shown) : shown.includes('(hidden)'));
  const findings = loaded.layers.flatMap((layer) =>
    hiddenIn(maskSecrets(layer.written), isSecret).flatMap((pointer) => secretFinding(layer, pointer)),
  );
  return findings.length > 0 ? findings : [{ level: 'ok', message: 'No file shows a secret to others.' }];
}

function secretFinding(layer: SettingsLayer, pointer: string): Finding[] {
  const readable = (statSync(layer.file, { throwIfNoEntry: false })?.mode ?? 0) & 0o044;
  if (layer.scope === 'global' && !readable) return [];
  const why = layer.scope === 'global' ? 'which others can read' : 'which belongs to a project';
  const variable = 'Put it into a variable, and write "$NAME" here';
  const remedy = layer.scope === 'global' ? `${variable}; or run: chmod 600 '${layer.file}'` : `${variable}.`;
  const message = `${pointer}: The secret itself stands in a file ${why}.`;
  return [{ level: 'warning', message, remedy, place: layer.place(pointer) }];
}

/** Where a mask put something else in the place of a secret. */
function hiddenIn(value: unknown, isSecret: (shown: string) => boolean, pointer = ''): string[] {
  if (typeof value === 'string') return isSecret(value) ? [pointer] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) =>
    hiddenIn(child, isSecret, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
}

function isUrl(text: string): boolean {
  return /^[a-z][a-z+.-]*:\/\//i.test(text);
}

/** Editors complete and check a file that says where its schema is. */
export async function examineSchema({ loaded }: SettledScene): Promise<Finding[]> {
  const findings = (await Promise.all(loaded.layers.map(schemaFinding))).flat();
  return findings.length > 0
    ? findings
    : [{ level: 'ok', message: 'Each settings file says where its schema is.' }];
}

async function schemaFinding({ file, realPath, written, place }: SettingsLayer): Promise<Finding[]> {
  const { $schema: schema } = written;
  if (schema === undefined) {
    const message = `${file} does not say where its schema is, so that editors cannot help.`;
    const remedy =
      'Run: service schema > service.schema.json beside it, and add "$schema": "./service.schema.json".';
    return [{ level: 'ok', message, remedy }];
  }
  if (/^[a-z][a-z+.-]*:/i.test(schema)) return [];
  if (existsSync(resolve(dirname(file), schema)))
    return (await isOfOtherVersion(dirname(realPath), schema)) ? [otherVersion(schema, place)] : [];
  const message = `$schema names a file that is not there: ${schema}.`;
  return [
    {
      level: 'warning',
      message,
      remedy: 'Make it with: service schema > service.schema.json',
      place: place('/$schema'),
    },
  ];
}

async function isOfOtherVersion(folder: string, named: string): Promise<boolean> {
  const { hasSchema, schemaBeside } = await import('../../../server/config/config.ts');
  return named === schemaBeside && !(await hasSchema(folder));
}

function otherVersion(schema: string, place: SettingsLayer['place']): Finding {
  const message = `${schema} is not the schema of this version: editors do not know what this command knows.`;
  const remedy = 'Renew it with: service schema > service.schema.json';
  return { level: 'warning', message, remedy, place: place('/$schema') };
}

/** Templates that are broken, and variables that are not set. No command in them is run. */
export async function examineTemplates({ loaded, environment }: SettledScene): Promise<Finding[]> {
  const { checkTemplates } = await import('../../../server/config/config.ts');
  const found = withPlaces(await checkTemplates(loaded.config, environment), loaded).map(findingOf);
  return found.length > 0 ? found : [{ level: 'ok', message: 'Every variable that is needed is set.' }];
}

/** Variables that only the command reads; the server knows the others. */
const ownVariables = ['SERVICE_API_KEY', 'SERVICE_SERVER'];

/** SERVICE_* variables: spelt wrong, or set to what nobody understands. */
export async function examineVariables({ environment }: Scene): Promise<Finding[]> {
  const { readServerSettings, ServerSettingsError } = await import(
    '../../../server/server-settings/server-settings.ts'
  );
  const findings: Finding[] = [];
  const known = Object.fromEntries(
    Object.entries(environment).filter(([name]) => !ownVariables.includes(name)),
  );
  try {
    const { settings } = readServerSettings([], known);
    for (const name of settings.ignoredVariables)
      findings.push({
        level: 'warning',
        message: `${name} is not a setting.`,
        remedy: 'service serve --help lists them all; correct it, or unset it.',
      });
  } catch (error) {
    if (!(error instanceof ServerSettingsError)) throw error;
    for (const fault of error.faults)
      findings.push({ level: 'warning', message: fault, remedy: 'Until then service serve does not start.' });
  }
  return findings.length > 0
    ? findings
    : [{ level: 'ok', message: 'Every SERVICE_* variable is a setting.' }];
}
