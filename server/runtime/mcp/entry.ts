/** An entry of `mcp` in the settings: what it starts or reaches, once its templates are replaced. */
import type { McpServer } from '../../contract/config.ts';
import { settingDefaults } from '../../contract/setting-defaults.ts';
import type { ExpandSetting } from '../extension.ts';
import { McpFailure } from './failure.ts';

/** What is started or reached. It holds secrets, and lives no longer than the connecting. */
export type Target =
  | {
      readonly type: 'stdio';
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
  | {
      readonly type: 'sse' | 'http';
      readonly url: URL;
      readonly headers: Readonly<Record<string, string>>;
      readonly oauth: OauthSettings;
    };

/** How a remote server is logged in to. */
export interface OauthSettings {
  /** False where the settings forbid it. */
  readonly allowed: boolean;
  readonly grant: 'authorization_code' | 'client_credentials';
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  readonly scope: string | undefined;
  readonly issuer: string | undefined;
  readonly callbackPort: number | undefined;
}

const defaultTimeoutS = settingDefaults['mcp.*.timeout'];
/** Timers know no longer time. */
const longestTimeoutMs = 2 ** 31 - 1;

/** How long connecting may take. */
export function timeoutMs({ timeout = defaultTimeoutS }: McpServer): number {
  // Of 16.1 seconds no number of JavaScript makes whole milliseconds, and timers take no others.
  return Math.min(Math.ceil(timeout * 1000), longestTimeoutMs);
}

/** What has to stay the same for a connection to go on. */
export function identityOf({ disabled, enabled_tools, disabled_tools, timeout, ...rest }: McpServer): string {
  return JSON.stringify(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whether the agent gets this tool. */
export function offers({ enabled_tools, disabled_tools }: McpServer, tool: string): boolean {
  if (disabled_tools?.includes(tool)) return false;
  return enabled_tools === undefined || enabled_tools.includes(tool);
}

/** Replaces the templates and checks what they gave. Throws McpFailure, whose message holds none of the values. */
export async function resolveEntry(
  name: string,
  entry: McpServer,
  expand: ExpandSetting,
  signal: AbortSignal,
): Promise<Target> {
  const expanded = await expandEntry(name, entry, expand, signal);
  return (expanded.type ?? 'stdio') === 'stdio' ? stdioTarget(expanded) : remoteTarget(expanded);
}

async function expandEntry(name: string, entry: McpServer, expand: ExpandSetting, signal: AbortSignal) {
  try {
    return await expand(entry, `/mcp/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, signal);
  } catch (error) {
    signal.throwIfAborted();
    // Whoever expands shows templates only, never what they stand for.
    const why = error instanceof Error ? error.message : 'its settings cannot be resolved';
    throw new McpFailure(why.replace(/\.$/, ''), { cause: error });
  }
}

function stdioTarget({ command, args = [], env = {} }: McpServer): Target {
  if (!command) throw new McpFailure('it has no command');
  if ([command, ...args, ...Object.entries(env).flat()].some((word) => word.includes('\0')))
    throw new McpFailure('a NUL character stands in its command, args or env');
  return { type: 'stdio', command, args, env };
}

function remoteTarget(entry: McpServer): Target {
  const url = entry.url !== undefined && URL.canParse(entry.url) ? new URL(entry.url) : null;
  if (!url || !/^https?:$/.test(url.protocol)) throw new McpFailure('its url is no http or https address');
  if (url.username || url.password)
    throw new McpFailure('its url holds a user or a password; put them into a header');
  return {
    type: entry.type === 'sse' ? 'sse' : 'http',
    url,
    headers: Object.fromEntries(
      Object.entries(entry.headers ?? {}).filter(([name, value]) => isHeader(name, value) && value !== ''),
    ),
    oauth: oauthSettingsOf(entry),
  };
}

/** What an entry whose templates are replaced says about logins. */
export function oauthSettingsOf(entry: McpServer): OauthSettings {
  return {
    allowed: entry.oauth !== false,
    grant: entry.oauth_grant ?? 'authorization_code',
    clientId: entry.oauth_client_id || undefined,
    clientSecret: entry.oauth_client_secret || undefined,
    scope: entry.oauth_scope || undefined,
    issuer: entry.oauth_issuer || undefined,
    callbackPort: entry.oauth_callback_port,
  };
}

/** Checked here, since the platform would show the value in its message. */
function isHeader(name: string, value: string): boolean {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name))
    throw new McpFailure('one of its headers has no proper name');
  if (/[^\t\x20-\x7e\x80-\xff]/.test(value))
    throw new McpFailure(`the value of its header ${name} cannot be sent`);
  return true;
}
