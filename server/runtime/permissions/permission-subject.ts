/** What a tool call is about, as permission patterns compare it: the parts of a command, a file, an address. */
import { realpathSync } from 'node:fs';
import { isAbsolute, relative, resolve } from 'node:path';
import { commandParts, type ParsedCommand } from '../commands/command-parts.ts';
import { withRepositories } from '../commands/git-repository.ts';
import { shellIsBash } from '../processes/shell.ts';
import type { PermissionNeed } from '../tools/tool.ts';
import { namesAlong } from './file-names.ts';
import { coversPath, coversUrl } from './permission-pattern.ts';
import { resourcePath } from './resource-path.ts';

/** What a call is about. */
export type Subject =
  | { readonly kind: 'command'; readonly command: ParsedCommand }
  /** From the workspace's root, or absolute outside of it; `names` are all that it is called. */
  | { readonly kind: 'file'; readonly path: string; readonly names: readonly string[] }
  /** What is downloaded has names as the file that it becomes, too: they count only where it is denied. */
  | { readonly kind: 'address'; readonly url: string; readonly names: readonly string[] }
  /** The first of the names, if there are any, is that of the file that it is about. */
  | { readonly kind: 'other'; readonly names: readonly string[] };

/** Reads it from the need, or from the input of a call that needs nobody's leave. */
export function subjectOf(
  toolName: string,
  need: PermissionNeed | null,
  input: Readonly<Record<string, unknown>>,
  workspacePath: string,
): Subject {
  const { command, url } = need?.params ?? input;
  if (toolName === 'bash' && typeof command === 'string')
    return { kind: 'command', command: readCommand(command, workspacePath) };
  if (toolName === 'list_mcp_resources' && typeof input.server === 'string') {
    const path = resourcePath(input.server);
    return { kind: 'file', path, names: [path] };
  }
  const files = need ? filesOf(need, input, workspacePath) : filesNamed(input, workspacePath);
  const names = files.map((path) => shown(path, workspacePath));
  if ((need?.action === 'fetch' || need?.action === 'download') && typeof url === 'string')
    return { kind: 'address', url, names };
  // Whoever allows one of these allows what it costs as well, and not only a file: `*` is still every call of it.
  if (names[0] === undefined || need?.action === 'execute') return { kind: 'other', names };
  return { kind: 'file', path: names[0], names };
}

/** First the one that is allowed; what the call names it is no less a name of it. */
function filesOf(
  { action, file, path }: PermissionNeed,
  input: Readonly<Record<string, unknown>>,
  workspacePath: string,
): readonly string[] {
  // What a tool of a strange server calls a path need not be one.
  if (action === 'fetch' || (action === 'execute' && file === undefined)) return [];
  return [file ?? path, ...filesNamed(input, workspacePath)];
}

/** What a call names: as it is written, and by each link on the way to where it leads. */
function filesNamed(input: Readonly<Record<string, unknown>>, workspacePath: string): readonly string[] {
  const given = [input.file_path, input.path].find((path) => typeof path === 'string');
  if (given === undefined) return [];
  const path = resolve(workspacePath, given);
  try {
    const workspace = realpathSync(workspacePath);
    const inWorkspace = (name: string) => resolve(workspacePath, relative(workspace, name));
    return [path, ...namesAlong(resolve(workspace, given)).map(inWorkspace)];
  } catch {
    // It cannot be reached: the tool will say so.
    return [path];
  }
}

function readCommand(command: string, workspacePath: string): ParsedCommand {
  // Another shell would take the same letters for other commands.
  if (!shellIsBash)
    return {
      parts: [],
      sets: [],
      obscure: 'there is no bash here to read it',
      anything: true,
      movesAbout: true,
    };
  return withRepositories(commandParts(command), workspacePath);
}

/** As patterns name it: from the root of the workspace, or absolute outside of it. */
export function shown(path: string, workspacePath: string): string {
  const way = relative(workspacePath, resolve(workspacePath, path));
  return way === '..' || way.startsWith('../') || isAbsolute(way) ? resolve(workspacePath, path) : way || '.';
}

/** Whether a pattern of a rule for this purpose covers a subject that is no command. */
export function coversSubject(
  pattern: string,
  subject: Exclude<Subject, { kind: 'command' }>,
  purpose: 'allow' | 'deny',
): boolean {
  switch (subject.kind) {
    case 'file':
      return coversPath(pattern, subject.path);
    case 'address':
      return coversUrl(pattern, subject.url, purpose);
    default: {
      const [path] = subject.names;
      return pattern === '*' || (path !== undefined && coversPath(pattern, path));
    }
  }
}
