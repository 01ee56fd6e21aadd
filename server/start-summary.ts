/** What a start prints: how this server runs, what is off and why, and what to do next. */
import { formatDiagnostic } from './config/config.ts';
import type { ServerSettings } from './server-settings/server-settings.ts';
import type { FirstCredential, OpenServices } from './services.ts';

export function startSummary(
  settings: ServerSettings,
  server: {
    readonly url: string;
    readonly services: OpenServices;
    readonly firstCredential: FirstCredential | null;
  },
  version: string,
): string {
  const { services, url, firstCredential } = server;
  return [
    `service ${version} is listening on ${url}`,
    '',
    ...table(rows(settings, services)),
    ...services.diagnostics.map((diagnostic) => `\n${formatDiagnostic(diagnostic)}`),
    ...(firstCredential ? ['', ...introduction(firstCredential, url, services)] : []),
    '',
  ].join('\n');
}

function rows(settings: ServerSettings, services: OpenServices): [string, string][] {
  const { capabilities, masterKeyPath, providerOrigins } = services;
  const { mode, database, providers, off } = capabilities;
  return [
    [
      'mode',
      mode === 'single'
        ? 'single: one account on this machine'
        : 'multi: many accounts, commands in a sandbox only',
    ],
    ['registration', settings.registration === 'open' ? 'open' : 'by invitation (make invite)'],
    ['providers', providersText(providers, providerOrigins)],
    ['catalogue', catalogText(settings, services)],
    ['sandbox', sandboxText(capabilities)],
    ['outbound', outboundText(mode, settings.outboundAllow)],
    ['master key', masterKeyPath],
    ['database', database === 'sqlite' ? `SQLite in ${settings.dataDirectory}` : 'PostgreSQL'],
    ...off.map((what): [string, string] => ['off', what]),
    ...settings.ignoredVariables.map((name): [string, string] => [
      'ignored',
      `${name}: not a setting of this release; --help lists them all`,
    ]),
  ];
}

function sandboxText({ sandboxUnavailable, networkAllowed }: OpenServices['capabilities']): string {
  if (sandboxUnavailable !== null) return `no: ${sandboxUnavailable}`;
  return networkAllowed
    ? 'yes, bubblewrap; commands reach the network (tools.bash.network)'
    : 'yes, bubblewrap';
}

function providersText(providers: readonly string[], origins: OpenServices['providerOrigins']): string {
  if (providers.length === 0) return 'none';
  const [only] = providers;
  if (only === 'demo' && !origins.has('demo'))
    return 'demo, a scripted demonstration; set OPENAI_API_KEY or ANTHROPIC_API_KEY for a real model';
  return providers.map((id) => `${id} (${origins.get(id) ?? 'built in'})`).join(', ');
}

/** What is known of models beyond what the settings say, and whether anything is fetched for it. */
function catalogText(
  { catalogUrl, catalogHours }: ServerSettings,
  { modelsAsShipped }: OpenServices,
): string {
  const own = 'part of the program';
  if (catalogUrl === null) return own;
  return modelsAsShipped
    ? `${own}; options.disable_provider_auto_update keeps ${catalogUrl} from being asked`
    : `${catalogUrl}, asked every ${catalogHours} h; else ${own}`;
}

function outboundText(mode: 'single' | 'multi', allow: readonly string[]): string {
  if (mode === 'single') return 'this machine, private networks and the internet';
  return ['the internet', ...allow].join(', ');
}

function table(entries: readonly [string, string][]): string[] {
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
}

function introduction(
  credential: FirstCredential,
  url: string,
  { capabilities }: Pick<OpenServices, 'capabilities'>,
): string[] {
  if (credential.kind === 'admin')
    return [`The operator ${credential.email} was made from the settings; log in with that password.`];
  if (credential.kind === 'token')
    return [
      'Nobody runs this installation yet. Whoever registers with this token becomes its operator; it is shown once:',
      '',
      `    ${credential.token}`,
      '',
      `    curl ${url}/api/v1/auth/register -H 'Content-Type: application/json' \\`,
      `      -d '{"email": "you@example.com", "password": "at least ten characters", "bootstrap_token": "${credential.token}"}'`,
    ];
  // In multi the demonstration answers only who names it, and this line has to work as it is pasted.
  const model = capabilities.providers.length === 0 ? ', "model": "demo:demo-1"' : '';
  return [
    `You are the operator, ${credential.email}. This API key is yours; it is shown once:`,
    '',
    `    ${credential.apiKey}`,
    '',
    'Ask for something, and watch the agent ask you back:',
    '',
    `    curl -N ${url}/api/v1/query/stream \\`,
    `      -H 'Authorization: Bearer ${credential.apiKey}' \\`,
    `      -H 'Content-Type: application/json' \\`,
    `      -d '{"prompt": "Write a file named hello.txt"${model}}'`,
  ];
}
