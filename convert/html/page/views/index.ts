// The views below the timeline, in the order of their tabs.
import type {View} from "../view";
import {calls} from "./calls";
import {events} from "./events";
import {flame} from "./flame";
import {functions} from "./functions";
import {oneFunction} from "./function";
import {tree} from "./tree";

export const views: View[] = [calls, functions, flame, tree, oneFunction, events];
