/** `service doctor`. */
import { type Check, examineAll, type Found, type Level, type Scene } from '../doctor/examination.ts';
import {
  examineCache,
  examineCode,
  examineCommandName,
  examineNode,
  examineNodeVariables,
} from '../doctor/installation.ts';
import { examineLogins } from '../doctor/logins.ts';
import { examineLocalServers, examineModels, examineProviders } from '../doctor/models.ts';
import { examineHooks, examineLsp, examineMcp, examineSandbox, examineTools } from '../doctor/programs.ts';
import {
  examineDatabase,
  examineDataDirectory,
  examineDataHome,
  examineMasterKey,
} from '../doctor/project.ts';
import {
  examineFiles,
  examineGlobalFolder,
  examineNames,
  examineSchema,
  examineSecrets,
  examineTemplates,
  examineVariables,
} from '../doctor/settings.ts';
import { examineTerminal } from '../doctor/terminal.ts';
import { examineTrust, examineTrustStore } from '../doctor/trust.ts';
import { exitCodes } from '../failures.ts';
import { homeFolder } from '../home-folder.ts';
import {
  counted,
  displayPath,
  isTerminal,
  paint,
  print,
  printable,
  printJson,
  printTable,
} from '../output.ts';
import { currentPlaces } from '../places.ts';

/** Everything that is looked at, in the order in which it is told. */
const checks: readonly Check[] = [
  { name: 'node', look: examineNode },
  { name: 'node variables', look: examineNodeVariables },
  { name: 'generated code', look: examineCode },
  { name: 'compiled code', look: examineCache },
  { name: 'command', look: examineCommandName },
  { name: 'terminal', look: examineTerminal },
  { name: 'settings', look: examineFiles },
  { name: 'file names', look: examineNames },
  { name: 'global folder', look: examineGlobalFolder },
  { name: 'secrets', needsSettings: true, look: examineSecrets },
  { name: 'schema', needsSettings: true, look: examineSchema },
  { name: 'variables', look: examineVariables },
  { name: 'templates', needsSettings: true, look: examineTemplates },
  { name: 'trust', needsSettings: true, look: examineTrust },
  { name: 'trust store', look: examineTrustStore },
  { name: 'personal data', look: examineDataHome },
  { name: 'master key', look: examineMasterKey },
  { name: 'data directory', needsSettings: true, look: examineDataDirectory },
  { name: 'database', needsSettings: true, look: examineDatabase },
  { name: 'providers', needsSettings: true, look: examineProviders },
  { name: 'models', needsSettings: true, look: examineModels },
  { name: 'local servers', needsSettings: true, look: examineLocalServers },
  { name: 'tools', look: examineTools },
  { name: 'sandbox', look: examineSandbox },
  { name: 'hooks', needsSettings: true, look: examineHooks },
  { name: 'mcp', needsSettings: true, look: examineMcp },
  { name: 'lsp', needsSettings: true, look: examineLsp },
  { name: 'logins', look: examineLogins },
];

/** Looks at everything that could be wrong, and says how to mend it. With a problem the exit code is 1. */
export async function examine({ json = false }: { readonly json?: boolean }): Promise<void> {
  const found = await examineAll(checks, await setScene());
  const count = (level: Level) => found.filter((finding) => finding.level === level).length;
  const problems = count('problem');
  const warnings = count('warning');
  if (json) printJson({ problems, warnings, findings: found.map(asJson) });
  else if (isTerminal()) printForPerson(found, problems, warnings);
  else printTable(found, columns);
  if (problems > 0) process.exitCode = exitCodes.failed;
}

async function setScene(): Promise<Scene> {
  const { loadSettings, SettingsError } = await import('../../../server/config/config.ts');
  const surroundings = { environment: process.env, home: homeFolder(), places: await currentPlaces() };
  try {
    return { ...surroundings, loaded: await loadSettings(surroundings.places), faults: [] };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return { ...surroundings, loaded: null, faults: error.diagnostics };
  }
}

function asJson({ check, level, message, remedy, place }: Found) {
  const { file = null, line = null, column = null } = place ?? {};
  return { check, level, message, remedy: remedy ?? null, file, line, column };
}

const columns = [
  { title: 'level', value: ({ level }: Found) => level },
  { title: 'check', value: ({ check }: Found) => check },
  { title: 'message', value: (found: Found) => `${where(found)}${found.message}` },
  { title: 'remedy', value: ({ remedy = '' }: Found) => remedy },
];

const signs = {
  ok: { sign: '✓', colour: 'green' },
  warning: { sign: '!', colour: 'yellow' },
  problem: { sign: '✗', colour: 'red' },
} as const;

function printForPerson(found: readonly Found[], problems: number, warnings: number): void {
  const width = Math.max(...checks.map(({ name }) => name.length));
  for (const [index, finding] of found.entries()) {
    const { sign, colour } = signs[finding.level];
    const name = found[index - 1]?.check === finding.check ? '' : finding.check;
    print(
      `${paint(colour, sign)} ${name.padEnd(width)}  ${printable(`${where(finding)}${finding.message}`)}`,
    );
    if (finding.remedy) print(`${' '.repeat(width + 4)}${paint('dim', `→ ${printable(finding.remedy)}`)}`);
  }
  print('');
  print(`${counted(problems, 'problem')}, ${counted(warnings, 'warning')}.`);
}

function where({ place, message }: Found): string {
  return place && !message.includes(place.file) ? `${displayPath(place.file)}:${place.line}: ` : '';
}
