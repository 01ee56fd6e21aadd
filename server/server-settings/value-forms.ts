/** The forms that values of settings have: each reads a text, or says what to write instead. */
import { Fault } from './setting-source.ts';

export function oneOf<const Choice extends string>(...choices: readonly Choice[]) {
  return (text: string): Choice | Fault =>
    choices.find((choice) => choice === text) ?? new Fault(`must be ${choices.join(' or ')}.`);
}

export function wholeNumber(minimum: number, maximum: number, example: number) {
  return (text: string): number | Fault => {
    const number = Number(text);
    if (/^\d{1,9}$/.test(text) && number >= minimum && number <= maximum) return number;
    return new Fault(`must be a whole number from ${minimum} to ${maximum}, for instance ${example}.`);
  };
}

export function seconds(minimum: number, maximum: number) {
  return (text: string): number | Fault => {
    const number = Number(text);
    if (/^\d+(\.\d+)?$/.test(text) && number >= minimum && number <= maximum) return number;
    return new Fault(`must be a number of seconds from ${minimum} to ${maximum}, for instance 15.`);
  };
}

export function yesOrNo(text: string): boolean | Fault {
  if (/^(true|1|yes)$/i.test(text)) return true;
  if (/^(false|0|no)$/i.test(text)) return false;
  return new Fault('must be true or false.');
}

export function notEmpty(text: string): string | Fault {
  return text.trim() === '' ? new Fault('must not be empty.') : text;
}

/** As the contract has it: in ASCII, so that no address looks like another in foreign letters. */
export const plainEmail = /^[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/;

export function emailAddress(text: string): string | Fault {
  return plainEmail.test(text) && text.length <= 254 ? text : new Fault('must be an e-mail address.');
}
