/** The settings of the process: where they come from, what goes before what, and every fault at once. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readServerSettings, ServerSettingsError } from './server-settings.ts';

const read = (argv: string[] = [], variables: Record<string, string> = {}) =>
  readServerSettings(argv, { HOME: '/home/ada', ...variables }).settings;

function faultsOf(argv: string[], variables: Record<string, string> = {}): readonly string[] {
  try {
    read(argv, variables);
  } catch (error) {
    if (error instanceof ServerSettingsError) return error.faults;
    throw error;
  }
  return [];
}

function file(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'service-settings-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'secret');
  writeFileSync(path, content);
  return path;
}

describe('defaults', () => {
  test('are for one person on this machine', () => {
    expect(read()).toMatchObject({
      host: '127.0.0.1',
      port: 8090,
      mode: 'single',
      registration: 'open',
      loginAttempts: 10,
      trustedProxies: [],
      publicUrl: null,
      smtpUrl: null,
      dataDirectory: resolve('.data'),
      workspacesDirectory: resolve('.data/workspaces'),
      globalConfigDirectory: '/home/ada/.config/service',
      corsOrigins: [],
      outboundAllow: [],
      webSearchUrl: null,
      catalogUrl: null,
      catalogHours: 6,
      modelsDirectory: '/home/ada/.local/share/service/models',
      modelHub: 'https://huggingface.co',
      debug: false,
      strict: false,
      metrics: 'public',
      docs: 'public',
      leaseSeconds: 10,
      answerSeconds: 900,
      keepaliveSeconds: 15,
      stallSeconds: 60,
      streamsPerUser: 100,
      streamsTotal: 1000,
      databaseUrl: null,
      databaseConnections: 10,
      storage: null,
      adminPassword: null,
    });
  });

  test.each([
    ['127.0.0.1', 'single', 'open'],
    ['localhost', 'single', 'open'],
    ['::1', 'single', 'open'],
    ['127.1.2.3', 'single', 'open'],
    ['0.0.0.0', 'multi', 'invite'],
    ['::', 'multi', 'invite'],
    ['10.0.0.1', 'multi', 'invite'],
    ['127.evil.example', 'multi', 'invite'],
  ])('at %s the mode is %s and registration is %s', (host, mode, registration) => {
    expect(read(['--host', host])).toMatchObject({ mode, registration });
  });

  test('what is set stays, wherever the server listens', () => {
    expect(read([], { SERVICE_HOST: '0.0.0.0', SERVICE_REGISTRATION: 'open' }).registration).toBe('open');
    expect(read([], { SERVICE_MODE: 'multi', SERVICE_REGISTRATION: 'invite' })).toMatchObject({
      mode: 'multi',
      registration: 'invite',
    });
  });
});

describe('where a value comes from', () => {
  test('models lie where the data of this person lies, or where the operator says', () => {
    expect(read([], { XDG_DATA_HOME: '/data/ada' }).modelsDirectory).toBe('/data/ada/service/models');
    expect(read([], { XDG_DATA_HOME: 'ignored' }).modelsDirectory).toBe(
      '/home/ada/.local/share/service/models',
    );
    expect(read([], { SERVICE_MODELS_DIR: '/srv/models', SERVICE_MODEL_HUB: 'off' })).toMatchObject({
      modelsDirectory: '/srv/models',
      modelHub: null,
    });
  });

  test('a home that is no absolute path is a fault where something is looked for below it', () => {
    const fault = 'HOME is "home"; set it to an absolute path.';
    expect(faultsOf([], { HOME: 'home' })).toEqual([fault]);
    expect(faultsOf([], { HOME: 'home', SERVICE_GLOBAL_CONFIG: '/own' })).toEqual([fault]);
    const named = { SERVICE_GLOBAL_CONFIG: '/own', XDG_DATA_HOME: '/data' };
    expect(faultsOf([], { HOME: 'home', ...named })).toEqual([]);
  });

  test('flags go before variables, in both of their forms', () => {
    const variables = { SERVICE_PORT: '1', SERVICE_STRICT: 'true' };
    expect(read(['--port', '2'], variables).port).toBe(2);
    expect(read(['--port=3', '--strict=no'], variables)).toMatchObject({ port: 3, strict: false });
    expect(read(['--debug', '--strict'])).toMatchObject({ debug: true, strict: true });
    expect(read([], variables)).toMatchObject({ port: 1, strict: true });
  });

  test('an empty variable is none', () => {
    expect(read([], { SERVICE_PORT: '', DATABASE_URL: '' })).toMatchObject({ port: 8090, databaseUrl: null });
  });

  test('a secret may stand in a file, and in one place only', () => {
    const password = file('correct-horse-battery\n');
    const admin = { SERVICE_ADMIN_EMAIL: 'ada@example.com' };
    expect(read([], { ...admin, SERVICE_ADMIN_PASSWORD_FILE: password }).adminPassword).toBe(
      'correct-horse-battery',
    );
    expect(read([], { DATABASE_URL_FILE: file('postgres://a:b@c/d') }).databaseUrl).toBe(
      'postgres://a:b@c/d',
    );
    const both = {
      ...admin,
      SERVICE_ADMIN_PASSWORD_FILE: password,
      SERVICE_ADMIN_PASSWORD: 'another-password',
    };
    expect(faultsOf([], both)).toEqual([
      'SERVICE_ADMIN_PASSWORD and SERVICE_ADMIN_PASSWORD_FILE are both set; keep one of them.',
    ]);
    expect(faultsOf([], { DATABASE_URL_FILE: '/nowhere' })).toEqual([
      'DATABASE_URL_FILE names a file that cannot be read (ENOENT): /nowhere',
    ]);
  });

  test('folders are made absolute, and the settings folder follows XDG', () => {
    expect(read(['--data-dir', 'x'])).toMatchObject({
      dataDirectory: resolve('x'),
      workspacesDirectory: resolve('x/workspaces'),
    });
    expect(read([], { XDG_CONFIG_HOME: '/xdg' }).globalConfigDirectory).toBe('/xdg/service');
    expect(read([], { XDG_CONFIG_HOME: 'relative' }).globalConfigDirectory).toBe('/home/ada/.config/service');
    expect(read([], { XDG_CONFIG_HOME: '/xdg', SERVICE_GLOBAL_CONFIG: '/own' })).toMatchObject({
      globalConfigDirectory: '/own',
      skillsDirectory: '/own/skills',
    });
    expect(read([], { SERVICE_SKILLS_DIR: '/skills' }).skillsDirectory).toBe('/skills');
  });

  test('how long things are kept is told in days, and by default in numbers', () => {
    const defaults = { eventsDays: 7, loginsDays: 30, jobRunsDays: 90, usageDays: 731, auditDays: 400 };
    expect(read().retention).toEqual(defaults);
    const variables = { SERVICE_RETENTION_EVENTS_DAYS: '1', SERVICE_RETENTION_AUDIT_DAYS: '0' };
    expect(read(['--retention-usage-days', '31'], variables).retention).toEqual({
      ...defaults,
      eventsDays: 1,
      usageDays: 31,
      auditDays: 0,
    });
    expect(faultsOf([], { SERVICE_RETENTION_AUDIT_DAYS: '29', SERVICE_RETENTION_USAGE_DAYS: '7' })).toEqual([
      'SERVICE_RETENTION_USAGE_DAYS must be a whole number of days from 31 to 36500, for instance 90.',
      'SERVICE_RETENTION_AUDIT_DAYS must be a whole number of days from 30 to 36500, for instance 90.',
    ]);
  });

  test('the database has one address to serve, and may have one to migrate', () => {
    const variables = {
      DATABASE_URL: 'postgres://app:hunter2@db/service',
      DATABASE_MIGRATION_URL_FILE: file('postgres://owner:hunter3@db/service\n'),
    };
    expect(read([], variables).databaseMigrationUrl).toBe('postgres://owner:hunter3@db/service');
    expect(readServerSettings([], variables).help).not.toMatch(/hunter/);
    expect(read([], { SERVICE_DATABASE_CONNECTIONS: '40' }).databaseConnections).toBe(40);
    expect(faultsOf([], { SERVICE_DATABASE_CONNECTIONS: '1' })).toEqual([
      'SERVICE_DATABASE_CONNECTIONS must be a whole number from 2 to 1000, for instance 10.',
    ]);
    expect(faultsOf([], { DATABASE_MIGRATION_URL: 'postgres://owner@db/service' })).toEqual([
      'DATABASE_MIGRATION_URL needs DATABASE_URL: it is the same database, for another role.',
    ]);
  });

  test('the bucket of files is one address, which holds a secret', () => {
    const url = 's3://AKIDEXAMPLE:hun%2Fter2@Minio:9000/bucket/some/prefix?tls=false&max_file_bytes=1000';
    expect(read([], { STORAGE_URL_FILE: file(`${url}\n`) }).storage).toEqual({
      endpoint: 'http://minio:9000',
      region: 'us-east-1',
      bucket: 'bucket',
      prefix: 'some/prefix',
      pathStyle: true,
      credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'hun/ter2' },
      maxFileBytes: 1000,
      retentionDays: null,
    });
    expect(readServerSettings([], { STORAGE_URL: url }).help).not.toMatch(/ter2|AKIDEXAMPLE/);
    expect(read([], { STORAGE_URL: 's3://s3.eu-central-1.amazonaws.com/bucket' }).storage).toMatchObject({
      ...{ endpoint: null, region: 'eu-central-1', prefix: '', pathStyle: false, credentials: null },
    });
    expect(read().storage).toBeNull();
  });

  test.each([
    ['https://host/bucket', /must be as s3:\/\//],
    ['s3://host', /names no bucket/],
    ['s3://hunter2@host/bucket', /both key and secret/],
    ['s3://key:hunter%2@host/bucket', /percent-encoded/],
    ['s3://key:hunter2@host/bucket?regio=eu', /regio is none of tls, path_style, region/],
    ['s3://key:hunter2@host/bucket?max_file_bytes=0', /max_file_bytes that must be a number of bytes/],
    ['s3://host/bucket/a b', /the prefix holds/],
  ])('%s is no bucket, and the fault shows no secret', (url, fault) => {
    const faults = faultsOf([], { STORAGE_URL: url });
    expect(faults).toEqual([expect.stringMatching(fault)]);
    expect(faults[0]).not.toContain('hunter');
  });

  test('places that may be reached are a list', () => {
    const { outboundAllow } = read(['--outbound-allow', 'ollama:11434, 10.0.0.0/8']);
    expect(outboundAllow).toEqual(['ollama:11434', '10.0.0.0/8']);
  });

  test('the mail server, its sender and the address of this server belong together', () => {
    const variables = {
      SERVICE_SMTP_URL_FILE: file('smtps://user:hunter2@mail.example.com\n'),
      SERVICE_MAIL_FROM: 'Service <service@example.com>',
      SERVICE_PUBLIC_URL: 'https://service.example.com/',
    };
    expect(read([], variables)).toMatchObject({
      smtpUrl: 'smtps://user:hunter2@mail.example.com',
      mailFrom: 'Service <service@example.com>',
      publicUrl: 'https://service.example.com',
    });
    expect(readServerSettings([], variables).help).not.toContain('hunter2');
    const { SERVICE_PUBLIC_URL: _, ...unreachable } = variables;
    expect(faultsOf([], unreachable)).toEqual([
      'SERVICE_SMTP_URL needs SERVICE_PUBLIC_URL: the mails hold links to this server.',
    ]);
    expect(faultsOf([], { SERVICE_MAIL_FROM: 'a@example.com' })).toEqual([
      'SERVICE_SMTP_URL and SERVICE_MAIL_FROM belong together; set both, or neither.',
    ]);
  });

  test.each([
    [{ SERVICE_SMTP_URL: 'mail.example.com' }, 'SERVICE_SMTP_URL must begin with smtp:// or smtps://,'],
    [
      { SERVICE_SMTP_URL: 'http://mail.example.com' },
      'SERVICE_SMTP_URL must begin with smtp:// or smtps://,',
    ],
    [{ SERVICE_ADMIN_EMAIL: 'аda@example.com' }, 'SERVICE_ADMIN_EMAIL must be an e-mail address.'],
    [{ SERVICE_ADMIN_EMAIL: 'a@b@example.com' }, 'SERVICE_ADMIN_EMAIL must be an e-mail address.'],
  ])('%j is told', (variables, fault) => {
    const [first] = faultsOf([], variables as Record<string, string>);
    expect(first).toContain(fault);
  });

  test('trusted proxies are a list of addresses, ranges and names', () => {
    const variables = { SERVICE_TRUSTED_PROXIES: 'loopback, 10.0.0.0/8,2001:db8::1' };
    expect(read([], variables).trustedProxies).toEqual(['loopback', '10.0.0.0/8', '2001:db8::1']);
    expect(read().trustedProxies).toEqual([]);
  });

  test.each(['0.0.0.0/0', '::/0', 'proxy.example.com', '10.0.0.1,', '10.0.0.0/33', 'true'])(
    'nobody trusts %s',
    (text) => {
      const [fault] = faultsOf([], { SERVICE_TRUSTED_PROXIES: text });
      expect(fault).toMatch(/^SERVICE_TRUSTED_PROXIES must list addresses or ranges, as 10\.0\.0\.0\/8/);
    },
  );

  test.each([
    'service@example.com\r\nBcc: eve@example.com',
    'Eve\n <service@example.com>',
    'service',
    'a@example.com, b@example.com',
    '<a@example.com> <b@example.com>',
  ])('no mail is sent by %j', (from) => {
    const others = {
      SERVICE_SMTP_URL: 'smtp://localhost',
      SERVICE_PUBLIC_URL: 'https://service.example.com',
    };
    const [fault] = faultsOf([], { ...others, SERVICE_MAIL_FROM: from });
    expect(fault).toMatch(/^SERVICE_MAIL_FROM must be an e-mail address/);
  });

  test('origins are a list', () => {
    const variables = { SERVICE_CORS_ORIGINS: 'https://a.example, http://localhost:3000/' };
    expect(read([], variables).corsOrigins).toEqual(['https://a.example', 'http://localhost:3000']);
  });
});

describe('faults', () => {
  test.each([
    [{ SERVICE_PORT: '99999' }, 'SERVICE_PORT must be a whole number from 0 to 65535, for instance 8090.'],
    [{ SERVICE_PORT: '80.5' }, 'SERVICE_PORT must be a whole number from 0 to 65535, for instance 8090.'],
    [{ SERVICE_MODE: 'many' }, 'SERVICE_MODE must be single or multi.'],
    [
      { SERVICE_MODE: 'single', SERVICE_HOST: '0.0.0.0' },
      'SERVICE_MODE single is for loopback only; 0.0.0.0 can be reached by others: use multi.',
    ],
    [{ SERVICE_DEBUG: 'maybe' }, 'SERVICE_DEBUG must be true or false.'],
    [{ SERVICE_METRICS: 'private' }, 'SERVICE_METRICS must be public or operator or off.'],
    [{ SERVICE_DOCS: 'private' }, 'SERVICE_DOCS must be public or operator or off.'],
    [
      { SERVICE_KEEPALIVE_SECONDS: '0' },
      'SERVICE_KEEPALIVE_SECONDS must be a number of seconds from 0.05 to 3600, for instance 15.',
    ],
    [
      { DATABASE_URL: 'mysql://x' },
      'DATABASE_URL must begin with postgres://, as postgres://user:password@host/database.',
    ],
    [
      { SERVICE_CORS_ORIGINS: 'app.example' },
      'SERVICE_CORS_ORIGINS must list origins as https://app.example.com, with commas between; app.example is none.',
    ],
    [
      { SERVICE_MODEL_HUB: 'models.example.com' },
      'SERVICE_MODEL_HUB must be an address as https://models.example.com, or off.',
    ],
    [
      { SERVICE_WEB_SEARCH_URL: 'localhost:8888' },
      'SERVICE_WEB_SEARCH_URL must be an address as http://localhost:8888.',
    ],
    [
      { SERVICE_OUTBOUND_ALLOW: 'ollama:11434, *' },
      'SERVICE_OUTBOUND_ALLOW lists what cannot be used: "*" is neither a host (ollama.internal, localhost:11434), an origin (http://10.0.0.5:8080), an address nor a range (10.0.0.0/8, fd00::/8).',
    ],
    [
      { SERVICE_PUBLIC_URL: 'service.example.com' },
      'SERVICE_PUBLIC_URL must be an address without a path, as https://service.example.com.',
    ],
    [
      { SERVICE_PUBLIC_URL: 'http://service.example.com' },
      'SERVICE_PUBLIC_URL must begin with https://: what people send there is secret.',
    ],
    [
      { SERVICE_ADMIN_EMAIL: 'ada@example.com' },
      'SERVICE_ADMIN_EMAIL and SERVICE_ADMIN_PASSWORD belong together; set both, or neither.',
    ],
  ])('%j', (variables, fault) => {
    expect(faultsOf([], variables as Record<string, string>)).toEqual([fault]);
  });

  test('all are told at once, flags that are none included', () => {
    const faults = faultsOf(['--port', 'x', '--nonsense', '1', 'stray', '--mode=y'], { SERVICE_DEBUG: 'z' });
    expect(faults).toHaveLength(5);
    expect(faults.join('\n')).toMatch(
      /"stray"[\s\S]*--port[\s\S]*SERVICE_DEBUG[\s\S]*--mode[\s\S]*--nonsense/,
    );
  });

  test.each([
    'postgres://u:hunter2#x@h/d',
    'postgres://u:12#hunter2@h/d',
    'postgres://u:hunter2/x@h/d',
    'postgres://u:12/hunter2@h/d',
    'postgres://u:hunter2?x@h/d',
    'postgres://u:hunter2%@h/d',
    'postgres://u%zz:hunter2@h/d',
    'postgres://u:hunter2@h:port/d',
  ])('a database URL that cannot be read is told by its name, and how a password is written: %s', (url) => {
    for (const variable of ['DATABASE_URL', 'DATABASE_MIGRATION_URL']) {
      const others = variable === 'DATABASE_URL' ? {} : { DATABASE_URL: 'postgres://h/d' };
      const [fault, ...more] = faultsOf([], { ...others, [variable]: url });
      expect(fault).toMatch(
        RegExp(`^${variable} cannot be read as postgres://.* % as %25, # as %23, / as %2F`),
      );
      expect(`${fault} ${more}`).not.toContain('hunter2');
    }
  });

  test.each([
    'postgres://u:a%23b%2Fc%25@h:5432/d?sslmode=require',
    'postgresql:///d?host=/run/postgresql',
    'postgres://u:p@/d?host=/run/postgresql',
    'postgres://h/d?user=u&password=a@b',
    'postgres://u:p@ss@h/d',
    'postgres://u:p@[::1]:5432/d',
  ])('the database URL %s is taken as it is', (url) => {
    expect(read([], { DATABASE_URL: url }).databaseUrl).toBe(url);
  });

  test('no fault shows a secret', () => {
    const faults = faultsOf([], { DATABASE_URL: 'mysql://u:hunter2@h/d', SERVICE_ADMIN_PASSWORD: 'hunter2' });
    expect(faults.join()).not.toContain('hunter2');
  });
});

describe('the help', () => {
  test('shows every setting with its value and its source, and no secret', () => {
    const variables = { SERVICE_PORT: '1234', DATABASE_URL: 'postgres://u:hunter2@h/d' };
    const { help, helpWanted, settings } = readServerSettings(['--help', '--host', '::1'], variables);
    expect(helpWanted).toBe(true);
    expect(help).toMatch(/--port, SERVICE_PORT\n {6}.*\n {6}= 1234 \(from SERVICE_PORT\)/);
    expect(help).toMatch(/--host, SERVICE_HOST\n {6}.*\n {6}= ::1 \(from --host\)/);
    expect(help).toMatch(/DATABASE_URL\n {6}.*\n {6}= \(set, not shown\) \(from DATABASE_URL\)/);
    expect(help).toMatch(/OTEL_EXPORTER_OTLP_HEADERS\n {6}.*\n {6}= none \(default\)/);
    expect(help).toMatch(/SERVICE_MODE\n {6}.*\n {6}= single \(default\)/);
    expect(help).not.toContain('hunter2');
    const { ignoredVariables, retention, traces, ...shown } = settings;
    expect(ignoredVariables).toEqual([]);
    expect(traces).toBeNull();
    const ofOpenTelemetry = help.match(/^ {2}OTEL_\w+$/gm) ?? [];
    const count = Object.keys(shown).length + Object.keys(retention).length + ofOpenTelemetry.length;
    expect(help.match(/^ {6}= /gm)).toHaveLength(count);
  });

  test('is given even where something is wrong', () => {
    expect(readServerSettings(['--port', 'x', '-h'], {}).helpWanted).toBe(true);
  });
});
