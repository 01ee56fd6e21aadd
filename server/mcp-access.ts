/** The MCP servers of a person's settings, for the command: no server of our own, no database, no agent. */
import { expandSetting, type LoadedSettings } from './config/config.ts';
import { createLog, takeOverConsole } from './log.ts';
import { type LoginKeeper, type McpAccess, openMcpAccess } from './runtime/runtime.ts';

export type { LoginKeeper, McpAccess, McpExamination, McpPrompt } from './runtime/runtime.ts';

/**
 * The process is the command's: nothing but what it prints stands in its terminal.
 * @param folder - The one that a run would work in: processes and the commands of templates start there.
 */
export function openMcpServers(
  { config }: Pick<LoadedSettings, 'config'>,
  folder: string,
  environment: Readonly<Record<string, string | undefined>>,
  logins: LoginKeeper,
): McpAccess {
  const log = createLog('silent');
  takeOverConsole(log);
  return openMcpAccess({
    config,
    workspacePath: folder,
    logins,
    log,
    expand: (value, pointer, signal) =>
      expandSetting(value, pointer, { environment, workingDirectory: folder, signal }),
  });
}
