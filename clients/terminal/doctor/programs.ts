/** Checks of other programs: those that the tools use, and those that settings name. None of the latter is started. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { LoadedSettings } from '../../../server/config/config.ts';
import { placeOfEntry } from '../origin-of.ts';
import { findProgram } from '../search-path.ts';
import type { Finding, Scene, SettledScene } from './examination.ts';

const run = promisify(execFile);
const limitMs = 10_000;

/** The programs that tools are better with. */
const helpful = [
  { name: 'git', without: 'nobody can tell what the agent changed, and no server fetches skills' },
  { name: 'rg', without: 'searches are slower', install: 'ripgrep' },
] as const;

/** What the tools find on this machine. */
export function examineTools({ environment, places }: Scene): Finding[] {
  return helpful.map((program): Finding => {
    const { name, without } = program;
    const file = findProgram(name, environment.PATH, places.workingDirectory);
    if (file) return { level: 'ok', message: `${name} is ${file}.` };
    const packageName = 'install' in program ? program.install : name;
    return {
      level: 'warning',
      message: `${name} is not on PATH: ${without}.`,
      remedy: `Install ${packageName}.`,
    };
  });
}

/** The sandbox, tried as the tools would use it. */
export async function examineSandbox({ environment, places }: Scene): Promise<Finding[]> {
  if (process.platform !== 'linux')
    return [
      { level: 'ok', message: 'There is no sandbox on this system; commands run after your consent.' },
      ...(await examineWithoutSandbox()),
    ];
  const file = findProgram('bwrap', environment.PATH, places.workingDirectory);
  const remedy = 'Install bubblewrap; service serve with several accounts runs no commands without it.';
  if (!file)
    return [
      {
        level: 'warning',
        message:
          'bubblewrap (bwrap) is not on PATH, so that there is no sandbox: commands that you allow can read all that you can.',
        remedy,
      },
      ...(await examineWithoutSandbox()),
    ];
  const { detectSandbox } = await import('../../../server/main.ts');
  const sandbox = await detectSandbox();
  if (!('unavailable' in sandbox))
    return [{ level: 'ok', message: `${file} works.` }, examineTotals(sandbox.totalsUnbounded)];
  return [
    {
      level: 'warning',
      message: `There is no sandbox, although ${file} is there: ${sandbox.unavailable}.`,
      remedy:
        'Install version 0.8 of bubblewrap, or a later one. Let unprivileged users make namespaces: sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0.',
    },
    ...(await examineWithoutSandbox()),
  ];
}

/** What holds a command that no sandbox does: another user, where root runs the server, and the kernel's groups. */
async function examineWithoutSandbox(): Promise<Finding[]> {
  const { whyProcessesMayOutlive } = await import('../../../server/main.ts');
  const outlive = whyProcessesMayOutlive();
  const root = process.getuid?.() === 0;
  return [
    {
      level: 'warning',
      message: root
        ? 'Without the sandbox, commands in folders of root’s own run as root, and can read the master key and the database; in folders of others they run as the owner.'
        : 'Without the sandbox, commands run as you: they can read the master key, the database and the environment of the server.',
      remedy: root
        ? 'Give the workspaces to an ordinary user.'
        : 'Install bubblewrap, switch the tool off with "options": { "disabled_tools": ["bash"] }, or run service serve as root, which lets commands run as another user.',
    },
    outlive === null
      ? {
          level: 'ok',
          message: 'The kernel finds every process that a command without a sandbox leaves behind.',
        }
      : {
          level: 'warning',
          message: `Without the sandbox, a process that hides (another session, no parent, an empty environment) may outlive its command: ${outlive}.`,
          remedy:
            'Install bubblewrap, or let the service have control groups of its own (systemd: Delegate=yes).',
        },
  ];
}

/** Whether a command that starts many processes is held to one limit, or each of them to its own. */
function examineTotals(reason: string | null): Finding {
  if (reason === null)
    return { level: 'ok', message: 'The kernel bounds all processes of a command together.' };
  return {
    level: 'ok',
    message: `The total of what the processes of a command use is unbounded; each has a limit of its own (no control groups: ${reason}).`,
    remedy:
      'A server for many people is better run with control groups delegated to it (systemd: Delegate=yes).',
  };
}

/** A hook that cannot run denies every call that it matches. */
export async function examineHooks({ loaded, environment }: SettledScene): Promise<Finding[]> {
  const hooks = loaded.config.hooks?.pre_tool_use ?? [];
  const findings = await Promise.all(
    hooks.map(async ({ command, on_error }, index): Promise<Finding[]> => {
      const word = firstWord(command);
      if (word === null || (await shellKnows(word, environment, loaded.places.workingDirectory))) return [];
      const effect = on_error === 'allow' ? 'it guards nothing' : 'it denies every call that it matches';
      return [
        {
          level: on_error === 'allow' ? 'warning' : 'problem',
          message: `The hook hooks.pre_tool_use[${index}] cannot run, so that ${effect}: there is no program ${JSON.stringify(word)}.`,
          remedy: 'Correct its command, or make the file executable with chmod +x.',
          place:
            loaded.origin(`/hooks/pre_tool_use/${index}`)?.place ??
            loaded.origin(`/hooks/pre_tool_use/${index}/command`)?.place ??
            null,
        },
      ];
    }),
  );
  const told = findings.flat();
  if (told.length > 0) return told;
  const message = hooks.length === 0 ? 'There are none.' : everyProgramOf(hooks.length);
  return [{ level: 'ok', message }];
}

/** The word that names the program; null where only a shell could tell which it is. */
export function firstWord(command: string): string | null {
  const [, quoted, plain] =
    /^\s*(?:[A-Za-z_]\w*=[^\s$`"'\\]*\s+)*(?:"([^"$`\\]+)"|'[^']+'|([^\s;&|<>()$`"'\\#!{}*?[\]~]+))(?=[\s;&|<>)]|$)/.exec(
      command,
    ) ?? [];
  return quoted ?? plain ?? null;
}

/** Asked of the shell, which has commands of its own. The word is handed over as a value, and nothing is run. */
async function shellKnows(word: string, environment: Scene['environment'], cwd: string): Promise<boolean> {
  const { PATH = '' } = environment;
  // Of a path some shells say only that it is there.
  if (word.includes('/')) return findProgram(word, PATH, cwd) !== null;
  return await run('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', word], {
    cwd,
    env: { PATH },
    timeout: limitMs,
  }).then(
    () => true,
    () => false, // it says by its exit code that there is none
  );
}

/** Commands of MCP servers. */
export function examineMcp(scene: SettledScene): Finding[] {
  const servers = Object.entries(scene.loaded.config.mcp ?? {}).filter(
    ([, { disabled, type = 'stdio' }]) => !disabled && type === 'stdio',
  );
  return commandFindings('mcp', servers, scene);
}

/** Commands of language servers. */
export function examineLsp(scene: SettledScene): Finding[] {
  const { lsp = {}, options } = scene.loaded.config;
  const servers = Object.entries(lsp).filter(([, { disabled }]) => !disabled);
  if (servers.length === 0 && options?.auto_lsp !== false)
    return [
      {
        level: 'ok',
        message: 'The settings name none; known ones on PATH are started where a project fits.',
      },
    ];
  return commandFindings('lsp', servers, scene);
}

/** What an entry says of how it is started: by its own PATH, where it has one. */
interface StartedServer {
  readonly command?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function commandFindings(
  section: 'mcp' | 'lsp',
  servers: readonly (readonly [string, StartedServer])[],
  { loaded, environment }: { readonly loaded: LoadedSettings; readonly environment: Scene['environment'] },
): Finding[] {
  const findings = servers.flatMap(([name, { command, env }]): Finding[] => {
    const searchPath = env?.PATH ?? environment.PATH;
    // What a template would give is not worked out here: it may be a command to run.
    if (command === undefined || command.includes('$') || searchPath?.includes('$')) return [];
    if (findProgram(command, searchPath, loaded.places.workingDirectory)) return [];
    const message = `${section}.${name} cannot be started: there is no program ${JSON.stringify(command)}.`;
    const remedy = 'Install it, correct its command, or set "disabled": true.';
    return [{ level: 'warning', message, remedy, place: placeOfEntry(loaded, section, name) }];
  });
  if (findings.length > 0) return findings;
  const message = servers.length === 0 ? 'There are none.' : everyProgramOf(servers.length);
  return [{ level: 'ok', message }];
}

function everyProgramOf(number: number): string {
  return number === 1 ? 'The program of the one is there.' : `The programs of all ${number} are there.`;
}
