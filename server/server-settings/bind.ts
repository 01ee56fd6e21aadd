/** Where the server listens, for how many, and how much it says. */
import { isLoopback } from '../config/config.ts';
import type { SettingSource } from './setting-source.ts';
import { notEmpty, oneOf, wholeNumber, yesOrNo } from './value-forms.ts';

export interface BindSettings {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** What was asked for; a second account turns `single` into `multi`. */
  readonly mode: 'single' | 'multi';
  readonly debug: boolean;
  /** Whether every answer is checked against the contract before it is sent. */
  readonly strict: boolean;
}

export function readBind(source: SettingSource): BindSettings {
  const host = source.read({
    variable: 'SERVICE_HOST',
    flag: 'host',
    meaning: 'The address to listen on.',
    fallback: '127.0.0.1',
    parse: notEmpty,
  });
  return {
    host,
    port: source.read({
      variable: 'SERVICE_PORT',
      flag: 'port',
      meaning: 'The port to listen on; 0 takes any free one.',
      fallback: 8090,
      parse: wholeNumber(0, 65_535, 8090),
    }),
    debug: source.read({
      variable: 'SERVICE_DEBUG',
      flag: 'debug',
      meaning: 'Logs more, and lets web pages on this machine call (CORS).',
      fallback: false,
      parse: yesOrNo,
    }),
    strict: source.read({
      variable: 'SERVICE_STRICT',
      flag: 'strict',
      meaning: 'Checks every answer against the contract before it is sent.',
      fallback: false,
      parse: yesOrNo,
    }),
    mode: source.read({
      variable: 'SERVICE_MODE',
      flag: 'mode',
      meaning: 'single: one account on this machine. multi: many accounts; commands run in a sandbox only.',
      fallback: isLoopback(host) ? 'single' : 'multi',
      parse: oneOf('single', 'multi'),
    }),
  };
}
