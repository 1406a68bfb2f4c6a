"use strict";var xray=(()=>{var Le=Object.defineProperty;var Ot=Object.getOwnPropertyDescriptor;var Rt=Object.getOwnPropertyNames;var Ft=Object.prototype.hasOwnProperty;var Nt=(r,e)=>{for(var t in e)Le(r,t,{get:e[t],enumerable:!0})},$t=(r,e,t,n)=>{if(e&&typeof e=="object"||typeof e=="function")for(let o of Rt(e))!Ft.call(r,o)&&
o!==t&&Le(r,o,{get:()=>e[o],enumerable:!(n=Ot(e,o))||n.enumerable});return r};var Ht=r=>$t(Le({},"__esModule",{value:!0}),r);var fn={};Nt(fn,{app:()=>ze});function C(r){let e=document.getElementById(r);if(!e)throw new Error("no element "+r);return e}function y(r,e={},...t){let n=document.createElement(r);for(let[o,
s]of Object.entries(e))typeof s=="function"?n.addEventListener(o.slice(2),s):o==="class"?n.className=String(s):n.setAttribute(o,String(s));return n.append(...t),
n}var te=(r,e,t)=>y("button",{type:"button",title:e,onclick:t},r),Pe=r=>y("span",{class:"cut"},y("bdi",{dir:"ltr"},r));function H(r,e,...t){let n=C("tip");if(n.
hidden=!e,!e)return;let o=e.length>600?e.slice(0,600)+"…":e;n.replaceChildren(y("strong",{},o),...t.filter(i=>i).map(i=>y("div",{},i)));let s=r.clientX+14+n.offsetWidth>
innerWidth?r.clientX-n.offsetWidth-10:r.clientX+14;n.style.left=Math.max(4,s)+"px";let a=r.clientY+18,l=a+n.offsetHeight<=innerHeight-4;n.style.top=Math.max(4,l?
a:r.clientY-n.offsetHeight-18)+"px"}var E=r=>r.toLocaleString("en"),N=(r,e)=>E(r)+" "+(r===1?e:e+"s"),I=(r,e)=>e>0?(100*r/e).toFixed(1)+" %":"",Ue=["s",1e9],Oe=["ms",1e6],Re=["µs",1e3],Ge=["ns",1],
Dt=[Ue,Oe,Re,Ge],Ye=r=>Dt.find(([,e])=>Math.abs(r)>=e)??Ge,de=class{constructor(e,t,n){this.unit=e;this.span=t;this.epoch=n;this.inTicks=e!=="ns"}unit;span;epoch;inTicks;time(e){
if(this.inTicks)return E(Math.round(e))+" ticks";if(e>=1e12)return E(Math.round(e/1e9))+" s";for(let[t,n]of[Ue,Oe,Re])if(Math.abs(e)>=n)return(e/n).toPrecision(
4)+" "+t;return Math.round(e)+" ns"}moment(e){if(this.inTicks)return E(Math.round(e));let[t,n]=this.span>=1e9?Ue:this.span>=1e6?Oe:Re,[o,s]=(Math.round(e)/n).toFixed(
Math.log10(n)).split(".");return E(Number(o))+"."+s.replace(/\d{3}(?=\d)/g,"$& ")+" "+t}exact(e){if(this.inTicks)return String(Math.round(e));let[t,n]=Ye(e);return Number(
(e/n).toFixed(Math.log10(n)))+(t==="µs"?"us":t)}parse(e){let t=/^\s*(\d+\.?\d*|\.\d+)\s*(s|ms|us|µs|ns|ticks|)\s*$/.exec(e);if(!t||this.inTicks&&t[2]&&t[2]!==
"ticks"||!this.inTicks&&t[2]==="ticks")return NaN;let n={s:1e9,ms:1e6,us:1e3,µs:1e3};return Number(t[1])*(n[t[2]]??1)}parseRange(e){let[t,n]=e.split(/\s*(?:-|–|to)\s*/).
map(o=>this.parse(o));return t!==void 0&&n!==void 0&&t<n?[t,n]:null}date(e){if(!this.epoch)return"";let t=BigInt(this.epoch)+BigInt(Math.round(e)),n=Number(t/1000000000n);
return new Date(n*1e3).toISOString().replace("T"," ").replace(/\.000Z$/,"."+String(t%1000000000n).padStart(9,"0"))+" UTC"}rate(e,t){return this.inTicks||this.span<
1e4?"":`≤ ${E(Number((e*1e9/t).toPrecision(2)))} calls/s`}ticks(e,t,n){let o=Math.pow(10,Math.ceil(Math.log10(n*90)));o/5>=n*90?o/=5:o/2>=n*90&&(o/=2),o=Math.
max(o,1);let s=t/o>2e3?Math.floor(e/o/10)*o*10:0,a=[],l=Math.max(Math.abs(e-s),Math.abs(t-s)),[i,c]=this.inTicks?["",1]:Ye(l),u=Math.max(0,Math.ceil(Math.log10(
c/o)-1e-9));for(let d=Math.ceil(e/o);d*o<=t;d++){let h=d*o-s;a.push({at:d*o,label:(s?"+":"")+(h===0?"0":Number((h/c).toFixed(u)).toLocaleString("en")+" "+i)})}return{
anchor:s,marks:a}}};function Je(r,e,t){let n=e*Math.cos(t*Math.PI/180),o=e*Math.sin(t*Math.PI/180),s=(r+.3963377774*n+.2158037573*o)**3,a=(r-.1055613458*n-.0638541728*o)**3,l=(r-.0894841775*
n-1.291485548*o)**3;return"#"+[4.0767416621*s-3.3077115913*a+.2309699292*l,-1.2684380046*s+2.6097574011*a-.3413193965*l,-.0041960863*s-.7034186147*a+1.707614701*
l].map(i=>{let c=Math.min(1,Math.max(0,i<=.0031308?12.92*i:1.055*i**.4166666666666667-.055));return Math.round(255*c).toString(16).padStart(2,"0")}).join("")}function Qe(r){
let e=parseInt(r.trim().slice(1),16);return(4278190080|(e&255)<<16|e&65280|e>>16)>>>0}function ue(r,e,t){let n=o=>{let s=r>>>o&255,a=e>>>o&255;return Math.round(
s+(a-s)*t)<<o};return(4278190080|n(16)|n(8)|n(0))>>>0}var Ze=["back","panel","text","faint","line","accent","dim","onColor","running","deepest","blocked","queue\
d","recorder"],ce=class{constructor(e,t){this.dark=e;let n=getComputedStyle(document.documentElement);this.css=Object.fromEntries(Ze.map(o=>[o,n.getPropertyValue(
"--"+o).trim()])),this.pixel=Object.fromEntries(Ze.map(o=>[o,Qe(this.css[o])])),this.texts=t.map(o=>qt(o,e)),this.functions=Uint32Array.from(this.texts,Qe)}dark;css;pixel;functions;texts;functionColor(e){
return this.texts[e]}};function qt(r,e){let t=2166136261;for(let o=0;o<r.length;o++)t=Math.imul(t^r.charCodeAt(o),16777619);t=Math.imul(t^t>>>15,739982445),t=(t^
t>>>13)>>>0;let n=(t>>>9)%8/7;return e?Je(.44+.08*n,.09,t%360):Je(.8+.07*n,.095,t%360)}function U(r,e,t){for(;r<e;){let n=r+e>>1;t(n)?r=n+1:e=n}return r}var Q=class{constructor(e,t,n,o,s){this.threads=t;this.rows=n;this.waits=o;this.length=s;({func:this.
func,start:this.start,duration:this.duration,depth:this.depth,ends:this.ends}=e),this.n=this.func.length}threads;rows;waits;length;n;func;start;duration;depth;ends;get span(){
return Math.max(this.length,1)}endOf(e){return this.start[e]+this.duration[e]}isPartial(e){return this.ends[e]===4||this.ends[e]>=6}threadOf(e){return this.threads[U(
0,this.threads.length,t=>this.threads[t].end<=e)]}row(e,t,n=this.rows){return t<e.depth?n.order.subarray(n.from[e.row0+t],n.from[e.row0+t+1]):n.order.subarray(0,
0)}parentOf(e){let t=this.depth[e];if(t===0)return-1;let n=this.row(this.threadOf(e),t-1);return n[U(0,n.length,o=>n[o]<e)-1]}inside(e){let t=this.threadOf(e),n=this.
row(t,this.depth[e]),o=this.row(t,this.depth[e]+1),s=U(0,n.length,i=>n[i]<=e),a=s<n.length?n[s]:t.end,l=U(0,o.length,i=>o[i]<e);return o.subarray(l,U(l,o.length,
i=>o[i]<a))}selfOf(e){let t=this.duration[e];for(let n of this.inside(e))t-=this.duration[n];return t}lastOf(e){let{end:t}=this.threadOf(e),n=this.depth[e],o=e+
1;for(;o<t&&this.depth[o]>n;)o++;return o}neighbour(e,t){let n=this.threadOf(e),o=this.depth[e];if(t==="outer")return this.parentOf(e);if(t==="inner")return e+1<
n.end&&this.depth[e+1]>o?e+1:-1;let s=this.row(n,o),a=U(0,s.length,l=>s[l]<e)+(t==="next"?1:-1);return a>=0&&a<s.length?s[a]:-1}waited(e,t,n){let o=this.waits,s={
blocked:0,queued:0,recorder:0,unknown:0};for(let a=U(e.wait0,e.waitEnd,l=>o.end[l]<=t);a<e.waitEnd&&o.start[a]<n;a++){let l=o.end[a];for(let i of["queued","reco\
rder","blocked"]){let c=l-o[i][a];s[i]+=Math.max(0,Math.min(l,n)-Math.max(c,t)),l=c}l===o.end[a]&&(s.unknown+=Math.max(0,Math.min(l,n)-Math.max(o.start[a],t)))}
return s}};function he(r,e,t){let n=t?t.length:e.length,o=r[r.length-1],s=new Uint32Array((o?o.row0+o.depth:0)+1),a=new Uint32Array(n),l=c=>{let u=0;for(let d of r)
for(;u<n;u++){let h=t?t[u]:u;if(h>=d.end)break;c(d.row0+e[h],h)}};l(c=>{s[c+1]++});for(let c=1;c<s.length;c++)s[c]+=s[c-1];let i=s.slice();return l((c,u)=>{a[i[c]++]=
u}),{order:a,from:s}}var Fe=["open","depth","blocked","queued","recorder","unknown","inside"],Ne=r=>Object.fromEntries(Fe.map(e=>[e,new Float32Array(r)])),K=class{constructor(e){this.
n=e;this.change=new Float64Array(e+2)}n;change;add(e,t,n=1){this.edge(e,n),this.edge(t,-n)}edge(e,t){let n=e<0?0:e>this.n?this.n:e,o=n|0,s=n-o;this.change[o]+=t*
(1-s),this.change[o+1]+=t*s}finish(e){let t=0;for(let n=0;n<this.n;n++)t+=this.change[n],e[n]=t<1e-6?0:t}};function _e(r,e,t,n,o){let s=Ne(o),a=new K(o),l=new K(
o),{start:i,duration:c,depth:u}=r,d=t+o*n,h=p=>{let m=(i[p]-t)/n,b=m+c[p]/n;l.add(m,b),u[p]===0&&a.add(m,b)},f=U(e.first,e.end,p=>i[p]<t);for(let p=0;p<e.depth;p++){
let m=r.row(e,p),b=m[U(0,m.length,g=>m[g]<f)-1];b!==void 0&&i[b]+c[b]>t&&h(b)}for(let p=f;p<e.end&&i[p]<d;p++)h(p);return a.finish(s.open),l.finish(s.depth),e.waitEnd>
e.wait0&&It(r,e,t,n,s),s}function It(r,e,t,n,o){let{waits:s}=r,a=r.row(e,0),l=o.open.length,i=t+l*n,c=b=>(b-t)/n,u=new K(l),d=new K(l),h=new K(l),f=new K(l),p=new K(
l),m=U(0,a.length,b=>r.endOf(a[b])<t);for(let b=U(e.wait0,e.waitEnd,g=>s.end[g]<t);b<e.waitEnd&&s.start[b]<i;b++){let g=s.end[b],k=g-s.queued[b],v=k-s.recorder[b],
x=v-s.blocked[b];d.add(c(k),c(g)),h.add(c(v),c(k)),u.add(c(x),c(v));let M=x===g?s.start[b]:x;for(x===g&&f.add(c(M),c(g));m<a.length&&r.endOf(a[m])<g;)m++;m<a.length&&
r.start[a[m]]<=M&&p.add(c(M),c(g))}u.finish(o.blocked),d.finish(o.queued),h.finish(o.recorder),f.finish(o.unknown),p.finish(o.inside)}function et(r){let e=Math.
max(1024,Math.min(65536,Math.floor(1048576/Math.max(r.threads.length,1))));return{parts:e,states:r.threads.map(t=>_e(r,t,0,r.span/e,e))}}function tt(r,e,t,n,o,s){
let a=r.open.length,l=t?e.span/t.parts:1/0;if(s<l){let i=_e(e,n,o,s,a);for(let c of Fe)for(let u=0;u<a;u++)r[c][u]+=i[c][u];return}for(let i of Fe){let c=t.states[n.
index][i],u=r[i],d=c.length-1;for(let h=0;h<a;h++){let f=(o+h*s)/l,p=f+s/l,m=Math.max(0,Math.floor(f)),b=Math.min(d,Math.floor(p)),g=0;for(let k=m;k<=b;k++)g+=c[k]*
(Math.min(p,k+1)-Math.max(f,k));u[h]+=g*l/s}}}function ne(r,e){let t=new Uint32Array(r.length);for(let n=0;n<r.length;n++)t[n]=e(r[n]);return t}function me(r,e,t){let n=r.length,o=new Uint32Array(n);if(t)for(let s=0;s<
n;s++)o[s]=e[r[s]]/4294967296;else for(let s=0;s<n;s++)o[s]=e[r[s]]>>>0;return o}function $e(r,e,t){let n=r.slice();for(let o=0;o<t;o++)n=Kt(n,e(n,o));return n}
function Kt(r,e){let t=r.length,n=new Uint32Array(2048),o=new Uint32Array(2048),s=new Uint32Array(2048);for(let i=0;i<t;i++){let c=e[i];n[c&2047]++,o[c>>>11&2047]++,
s[c>>>22]++}let a=null,l=null;return[n,o,s].forEach((i,c)=>{if(i.includes(t))return;a||=new Uint32Array(t),l||=new Uint32Array(t);let u=0;for(let d=0;d<2048;d++){
let h=i[d];i[d]=u,u+=h}jt(r,e,a,l,i,11*c),[r,a,e,l]=[a,r,l,e]}),r}function jt(r,e,t,n,o,s){for(let a=0;a<e.length;a++){let l=e[a],i=o[l>>>s&2047]++;t[i]=r[a],n[i]=
l}}var fe=class{constructor(e){this.data=e}data;get time(){return this.data.total[0]}func(e){return this.data.func[e]}parent(e){return this.data.parent[e]}depth(e){
return this.data.depth[e]}total(e){return this.data.total[e]}self(e){return this.data.self[e]}calls(e){return this.data.calls[e]}children(e){return Array.from({
length:this.data.count[e]},(t,n)=>this.data.first[e]+n)}beside(e,t){if(e===0)return-1;let n=this.parent(e),o=this.data.first[n],s=e+t;return s>=o&&s<o+this.data.
count[n]?s:-1}matched(e){let t=0,n=new Uint8Array(this.data.func.length);for(let o=1;o<n.length;o++)n[o]=n[this.parent(o)],!(n[o]||!e[this.func(o)])&&(n[o]=1,t+=
this.total(o));return t}};function nt(r,e,t){let n=[];for(let a=r.parent(e);a>=0;a=r.parent(a))n.unshift({node:a,x:0,width:t,depth:r.depth(a),faint:!0});let o=Math.
max(r.total(e),1)/t,s=[{node:e,x:0,width:t,depth:r.depth(e),faint:!1}];for(let a=s.pop();a;a=s.pop()){n.push(a);let l=a.x;for(let i of r.children(a.node)){let c=r.
total(i)/o;if(c<.5)break;s.push({node:i,x:l,width:c,depth:r.depth(i),faint:!1}),l+=c}}return n}var pe=class{root={func:-1,parent:-1,calls:0,total:0,self:0,children:new Map,
last:null};path=[this.root];enter(e){let t=this.path[this.path.length-1],n=t.last;return(!n||n.func!==e)&&(n=t.children.get(e)??null,n||(n={func:e,parent:-1,calls:0,
total:0,self:0,children:new Map,last:null},t.children.set(e,n)),t.last=n),this.path.push(n),n}finish(e){let t=[{node:this.root,parent:-1,depth:0}],n=[],o=[];for(let s=0;s<
t.length;s++){let{node:a,depth:l}=t[s],i=Array.from(a.children.values()).filter(c=>c.calls>0).sort((c,u)=>u.total-c.total||e[c.func]-e[u.func]);n.push(t.length),
o.push(i.length);for(let c of i)t.push({node:c,parent:s,depth:l+1})}return{func:Int32Array.from(t,s=>s.node.func),parent:Int32Array.from(t,s=>s.parent),depth:Uint32Array.
from(t,s=>s.depth),first:Uint32Array.from(n),count:Uint32Array.from(o),calls:Uint32Array.from(t,s=>s.node.calls),total:Float64Array.from(t,s=>s.node.total),self:Float64Array.
from(t,s=>s.node.self)}}};var Vt=10,Wt=12,be=class{constructor(e,t){this.calls=e;let n=t.functions.map((a,l)=>l),o=t.functions,s=(a,l)=>a<l?-1:a>l?1:0;n.sort((a,l)=>s(o[a].short,o[l].short)||
s(o[a].name,o[l].name)||a-l),this.rank=new Uint32Array(n.length),n.forEach((a,l)=>{this.rank[a]=l})}calls;rank;selfTimes=null;parents=null;listed=null;threads(e){
return e.threads?e.threads.map(t=>this.calls.threads[t]):this.calls.threads}select(e,t){let[n,o]=t??[-1/0,1/0],s=this.threads(e),{func:a,start:l,duration:i}=this.
calls,c=new Uint32Array(s.reduce((p,m)=>p+m.calls,0)),{functions:u,min:d,max:h}=e,f=0;for(let p of s)for(let m=p.first;m<p.end;m++){let b=i[m],g=l[m];b>=d&&b<=h&&
g<=o&&g+b>=n&&(!u||u[a[m]])&&(c[f++]=m)}return c.subarray(0,f)}find(e){let{duration:t,start:n}=this.calls,o=e.functions||e.min>0||e.max<1/0,s=this.select(e,null),
[a,l]=e.range??[-1/0,1/0],i=0;for(let c of s)n[c]<=l&&n[c]+t[c]>=a&&i++;return{count:i,rows:o?he(this.calls.threads,this.calls.depth,s):null}}self(){if(this.selfTimes)
return this.selfTimes;let{duration:e}=this.calls,t=Float64Array.from(e),n=this.parent();for(let o=0;o<t.length;o++)n[o]>=0&&(t[n[o]]-=e[o]);return this.selfTimes=
t}parent(){if(this.parents)return this.parents;let{depth:e,threads:t}=this.calls,n=new Int32Array(this.calls.n).fill(-1),o=[];for(let s of t)for(let a=s.first;a<
s.end;a++)e[a]>0&&(n[a]=o[e[a]-1]),o[e[a]]=a;return this.parents=n}keys(e){let{func:t,start:n,duration:o,depth:s}=this.calls,a=this.rank,l=this.calls.length>=4294967296?
2:1;switch(e){case"function":return[i=>ne(i,c=>a[t[c]]),1];case"thread":{let i=new Uint32Array(this.calls.n);for(let c of this.calls.threads)i.fill(c.index,c.first,
c.end);return[c=>ne(c,u=>i[u]),1]}case"start":return[(i,c)=>me(i,n,c),l];case"duration":return[(i,c)=>me(i,o,c),l];case"self":{let i=this.self();return[(c,u)=>me(
c,i,u),l]}case"depth":return[i=>ne(i,c=>s[c]),1];case"parent":{let i=this.parent();return[c=>ne(c,u=>i[u]<0?0:1+a[t[i[u]]]),1]}}}list(e,t,n){let o=JSON.stringify(
[e.threads,e.range,e.functions&&Array.from(e.functions),e.min,String(e.max),t]);return this.listed?.key!==o&&(this.listed={key:o,order:$e(this.select(e,e.range),
...this.keys(t)),reversed:!1}),this.listed.reversed!==n&&(this.listed.order.reverse(),this.listed.reversed=n),this.listed.order.slice()}sum(e){let[t,n]=e.range??
[-1/0,1/0],{func:o,start:s,duration:a,depth:l,ends:i}=this.calls,c=this.rank.length,u={tree:null,calls:new Uint32Array(c),total:new Float64Array(c),self:new Float64Array(
c),max:new Float64Array(c)},d=new pe,{path:h,root:f}=d,p=new Uint32Array(c),m=b=>{for(;h.length>b+1;)p[h.pop().func]--};for(let b of this.threads(e)){for(let g=b.
first;g<b.end;g++){let k=s[g],v=a[g],x=k+v,M=o[g];m(l[g]);let T=h[h.length-1],S=d.enter(M),w=Math.max(0,Math.min(x,n)-Math.max(k,t));S.total+=w,S.self+=w,T.self-=
w,u.self[M]+=w,T===f?f.total+=w:u.self[T.func]-=w,k<=n&&x>=t&&(S.calls++,u.calls[M]++,v>u.max[M]&&i[g]!==4&&i[g]<6&&(u.max[M]=v),p[M]||(u.total[M]+=w)),p[M]++}m(
0)}return f.self=0,u.tree=d.finish(this.rank),u}rates(e,t){let n=new Float64Array(t),o=this.calls.span/t,{start:s}=this.calls;for(let a of this.threads(e))for(let l=a.
first;l<a.end;l++)n[Math.min(s[l]/o|0,t-1)]++;return n}profiles(){return et(this.calls)}details(e,t){let[n,o]=t.range??[-1/0,1/0],{start:s,duration:a}=this.calls,
l=[];for(let p of this.threads(t))for(let m=p.first;m<p.end;m++)this.calls.func[m]===e&&s[m]<=o&&s[m]+a[m]>=n&&l.push(m);let[i,c]=this.keys("duration"),u=$e(Uint32Array.
from(l),i,c),d=u.filter(p=>!this.calls.isPartial(p)),h=d.length,f=p=>h?a[d[Math.min(h-1,Math.floor(p*h))]]:0;return{calls:u.length,open:u.length-h,quantiles:[0,
.5,.9,.99,.999,1].map(f),bins:h?Bt(d,a):[],...this.neighbours(u),slowest:u.slice(-Vt).reverse()}}neighbours(e){let t=new Map,n=new Map,o=this.parent(),{func:s,duration:a}=this.
calls,l=(c,u,d)=>{let h=c.get(u)??{func:u,calls:0,total:0};h.calls++,h.total+=d,c.set(u,h)};for(let c of e){l(t,o[c]<0?-1:s[o[c]],a[c]);for(let u of this.calls.
inside(c))l(n,s[u],a[u])}let i=c=>Array.from(c.values()).sort((u,d)=>d.total-u.total||u.func-d.func).slice(0,Wt);return{callers:i(t),callees:i(n)}}};function Bt(r,e){
let t=i=>Math.floor(Math.log2(Math.max(i,1))*4),n=new Map;for(let i of r)n.set(t(e[i]),(n.get(t(e[i]))??0)+1);let o=t(e[r[0]]),s=t(e[r[r.length-1]]),a=Math.max(
1,Math.ceil((s-o+1)/24)),l=[];for(let i=o;i<=s;i+=a){let c=0;for(let h=i;h<i+a;h++)c+=n.get(h)??0;let u=Math.ceil(Math.pow(2,i/4)),d=Math.ceil(Math.pow(2,(i+a)/
4))-1;(d>=u||c)&&l.push({from:i===0?0:u,to:Math.max(d,u),n:c})}return l}function rt(r,e){let t=[],n=r.lastOf(e),o=r.depth[e];for(let s=e;s<n&&t.length<200;s++){
let a=r.depth[s]-o;a<=8&&r.duration[s]>=r.duration[e]/200&&t.push({call:s,depth:a})}return t}var ot=(r,e)=>({calls:r.calls[e],total:r.total[e],self:r.self[e],max:r.
max[e]}),He=(r,e,t)=>U(0,r.length,n=>e.endOf(r[n])<t);var De=["function","thread","start","duration","self","depth","parent"],ge=["trace","busy","blocked","name","start","selected"],z=class{constructor(e,t,n){this.
page=e;this.key=t;this.ask=n}page;key;ask;asked=null;waiting=!1;value;get(){return!this.waiting&&this.key()!==this.asked&&(this.asked=this.key(),this.waiting=!0,
this.page.busy++,this.ask().then(e=>{this.value=e}).catch(e=>this.page.fail(e)).finally(()=>{this.waiting=!1,this.page.busy--,this.page.change({})})),this.value}get current(){
return!this.waiting&&this.key()===this.asked}},q=class r{constructor(e,t,n,o,s){this.meta=e;this.calls=t;this.engine=n;this.rank=o;this.tabs=s;this.format=new de(
e.unit,t.span,e.epoch),this.dark.addEventListener("change",()=>this.change({}))}meta;calls;engine;rank;tabs;state={tab:"calls",query:"",min:"",max:"",thread:"",
from:0,to:1,selection:null,call:-1,func:-1,sort:"start",down:!1,theme:"",order:"trace",unfolded:null,pinned:[],hidden:[],moved:[],groups:[]};format;busy=0;draws=[];dark=matchMedia(
"(prefers-color-scheme: dark)");themes={};pending=0;saving=0;place=null;fail(e){throw document.getElementById("summary").textContent="The page cannot show the t\
race: "+String(e),e}get isDark(){return this.state.theme?this.state.theme==="dark":this.dark.matches}get theme(){let e=this.isDark?"dark":"light";return this.themes[e]??=
new ce(this.isDark,this.meta.functions.map(t=>t.short))}onDraw(e){this.draws.push(e)}drawAll(){document.documentElement.className=this.isDark?"dark":"light";for(let e of this.
draws)e()}change(e){Object.assign(this.state,e),e.from!==void 0&&this.show(e.from,e.to),this.pending||(this.pending=requestAnimationFrame(()=>{this.pending=0,this.
drawAll()})),clearTimeout(this.saving),this.saving=window.setTimeout(()=>this.writeFragment(),200)}async settled(){let e=()=>new Promise(t=>requestAnimationFrame(
()=>setTimeout(t)));do await e();while(this.pending||this.busy||this.saving);await e()}show(e,t){let n=this.calls.span,o=Math.min(Math.max(t-e,10),Math.max(n*3,
100)),s=Math.min(Math.max((e+t)/2,0),n);this.state.from=s-o/2,this.state.to=s+o/2}readFragment(){let e=new URLSearchParams(location.hash.slice(1)),{state:t}=this,
n=u=>e.get(u)??"",o=(u,d)=>e.has(u)&&isFinite(Number(e.get(u)))?Number(e.get(u)):d,s=u=>n(u).split(".").filter(d=>d!=="").map(Number).filter(d=>d>=0&&d<this.meta.
threads.length&&Number.isInteger(d));for(let u of["query","min","max","thread"])t[u]=n(u);t.tab=this.tabs.includes(n("tab"))?n("tab"):"calls",t.theme=["light","\
dark"].includes(n("theme"))?n("theme"):"",this.show(o("from",0),o("to",this.calls.span));let a=o("a",NaN),l=o("b",NaN);t.selection=a<l?[a,l]:null;let i=o("call",
-1),c=o("func",-1);t.call=i>=0&&i<this.calls.n?i|0:-1,t.func=c>=0&&c<this.meta.functions.length?c|0:-1,t.sort=De.find(u=>u===n("sort"))??"start",t.down=n("down")===
"1",t.order=ge.find(u=>u===n("order"))??"trace",t.unfolded=e.has("unfolded")?s("unfolded"):null;for(let u of["pinned","hidden","moved"])t[u]=s(u);t.groups=e.getAll(
"group")}writeFragment(){clearTimeout(this.saving),this.saving=0;let e=new URLSearchParams,{state:t}=this;for(let a of["query","min","max","thread","theme"])t[a]&&
e.set(a,t[a]);t.tab!=="calls"&&e.set("tab",t.tab),(Math.abs(t.from)>.5||Math.abs(t.to-this.calls.span)>.5)&&(e.set("from",String(Math.round(t.from))),e.set("to",
String(Math.round(t.to)))),t.selection&&(e.set("a",String(Math.round(t.selection[0]))),e.set("b",String(Math.round(t.selection[1])))),t.call>=0&&e.set("call",String(
t.call)),t.func>=0&&e.set("func",String(t.func)),t.sort!=="start"&&e.set("sort",t.sort),t.down&&e.set("down","1"),t.order!=="trace"&&e.set("order",t.order),t.unfolded&&
e.set("unfolded",t.unfolded.join("."));for(let a of["pinned","hidden","moved"])t[a].length&&e.set(a,t[a].join("."));for(let a of t.groups)e.append("group",a);let n=[
"tab","from","to","a","b","call","func"].map(a=>e.get(a)).join(),o=String(e);if(o===location.hash.slice(1)){this.place=n;return}let s=history.state?.steps??0;n===
this.place||this.place===null?history.replaceState({steps:s},"","#"+o):history.pushState({steps:s+1},"","#"+o),this.place=n}goBack(){history.state?.steps&&history.
back()}followAddress(){this.place=null,this.readFragment(),this.change({})}fullName(e){return this.meta.functions[e].name}shortName(e){return this.meta.functions[e].
short}nameOf(e){return this.shortName(this.calls.func[e])}value(e){return this.values.get(e)}get values(){return this.valueMap??=new Map(this.meta.values??[])}valueMap=null;showDuration(e){
return(this.calls.isPartial(e)?"≥ ":"")+this.format.time(this.calls.duration[e])}endingOf(e){let t={1:"left by a tail call",2:"left by the tail call inside it",
3:"no exit record: ended with its caller",4:"still open at the end of the trace",5:"left by an exception or longjmp"},n=this.calls.ends[e];return[n>=6&&"began b\
efore",t[n%6]].filter(Boolean).join(", ")}selfParts(e){let{calls:t}=this,n=t.threadOf(e),o={blocked:0,queued:0,recorder:0,unknown:0};if(n.waitEnd===n.wait0)return"";
let s=t.start[e],a=i=>{let c=t.waited(n,s,i);for(let u of["blocked","queued","recorder","unknown"])o[u]+=c[u]};for(let i of t.inside(e))a(t.start[i]),s=t.endOf(
i);a(t.endOf(e));let l=Math.max(0,t.selfOf(e)-o.blocked-o.queued-o.recorder-o.unknown);return[l&&`${this.format.time(l)} on CPU`,this.showWaits(o)].filter(Boolean).
join(", ")}waitParts(e,t,n){let{waits:o}=this.calls,s={blocked:0,queued:0,recorder:0,unknown:0},a=0;for(let l=U(e.wait0,e.waitEnd,i=>o.end[i]<t);l<e.waitEnd&&o.
start[l]<=n;l++){let i=o.blocked[l]+o.queued[l]+o.recorder[l],c=o.end[l]-o.start[l];for(let u of["blocked","queued","recorder"])s[u]+=o[u][l];i?a=Math.max(a,c-i):
s.unknown+=c}return[this.showWaits(s),a>0&&`up to ${this.format.time(a)} earlier`].filter(Boolean).join(", ")}showWaits(e){return[["blocked",e.blocked],["in the\
 run queue",e.queued],["waiting for the recorder",e.recorder],["unknown",e.unknown]].filter(([,n])=>n>0).map(([n,o])=>`${this.format.time(o)} ${n}`).join(", ")}static expression(e){
return new RegExp(e,/[A-Z]/.test(e.replace(/\\./g,""))?"":"i")}matching=Y(()=>this.state.query,()=>{let{query:e}=this.state;if(!e)return null;try{let t=r.expression(
e),n=/\\[([]|[< ]/.test(e);return Uint8Array.from(this.meta.functions,o=>t.test(o.short)||n&&t.test(o.name)?1:0)}catch{return null}});threads=Y(()=>this.state.thread,
()=>{let e=this.calls.threads.filter(t=>t.calls>0);try{let t=r.expression(this.state.thread);return e.filter(n=>t.test(n.name))}catch{return e}});bounds(){let{min:e,
max:t}=this.state,n=o=>this.format.parse(o);return[n(e)||0,t&&!isNaN(n(t))?n(t):1/0]}scope(){return{threads:this.state.thread?this.threads().map(e=>e.index):null,
range:this.state.selection}}filter(){let[e,t]=this.bounds();return{...this.scope(),functions:this.matching(),min:e,max:t}}scopeKey(){return JSON.stringify([this.
state.thread,this.state.selection])}filterKey(){return JSON.stringify([this.state.query,this.state.min,this.state.max])+this.scopeKey()}found=new z(this,()=>this.
filterKey(),()=>this.engine.ask("find",this.filter()));listed=new z(this,()=>this.filterKey()+this.state.sort+this.state.down,()=>this.engine.ask("list",this.filter(),
this.state.sort,this.state.down));summed=new z(this,()=>this.scopeKey(),async()=>{let e=await this.engine.ask("sum",this.scope());return{...e,paths:new fe(e.tree)}});rates=new z(
this,()=>this.state.thread,()=>this.engine.ask("rates",{...this.scope(),range:null},1024));profiles=new z(this,()=>"",()=>this.engine.ask("profiles"));details=new z(
this,()=>this.scopeKey()+this.state.func,async()=>{let e=this.state.func;return{func:e,...await this.engine.ask("details",e,this.scope())}});get isFiltered(){let e=this.
state;return!!(e.query||e.min||e.max||e.thread||e.selection)}get isWhole(){return!!this.meta.octaves&&!this.state.thread&&!this.state.selection}functionSums(){if(this.
isWhole)return{time:this.allSelf(),of:t=>this.meta.functions[t].all};let e=this.summed.get();return e&&{time:e.paths.time,of:t=>ot(e,t)}}allSelf=Y(()=>"",()=>this.
meta.functions.reduce((e,t)=>e+t.all.self,0));where(){let{state:e,meta:t}=this,n=this.threads(),o=n.length,s=o===1&&(e.thread||!t.pruned&&!t.counted)?n[0].name:
e.thread?`${E(o)} threads`:"all threads";return e.selection?`${s}, ${this.format.moment(e.selection[0])} to ${this.format.moment(e.selection[1])}`:s}ofPart(){let e=[],
{left:t,pruned:n}=this.meta;return t&&e.push(`the ${N(t,"shorter call")} that ${t===1?"is":"are"} not in the page`),n&&e.push(`the ${N(n,"call")} that the recor\
der dropped`),e.length?`; without ${e.join(" and ")}; their time counts as self time of their callers`:""}choose(e,t){let n={call:e},{calls:o,state:s}=this;if(e>=
0){n.func=o.func[e];let a=o.start[e],l=o.endOf(e),i=s.to-s.from;if(t){let c=Math.max((l-a)*.1,5);n.from=a-c,n.to=l+c}else(l<s.from||a>s.to)&&(n.from=a-i/2,n.to=
a+i/2)}this.change(n)}pickFunction(e){this.change({func:e,tab:"function"})}listCalls(e,t={}){this.change({query:"^"+r.escaped(this.fullName(e))+"$",tab:"calls",
sort:"duration",down:!0,func:e,...t})}markCall(){let e=this.state.call,{start:t}=this.calls;e>=0&&this.change({selection:[t[e],Math.max(this.calls.endOf(e),t[e]+
1)]})}static escaped(e){return e.replace(/[\\^$.*+?()[\]{}|]/g,"\\$&")}};function Y(r,e){let t=null,n;return()=>{let o=r();return o!==t&&(t=o,n=e()),n}}function we(r,e,t=.5){let{from:n,to:o}=r.state,s=o-n,a=n+s*t;r.change({from:a-s*e*t,to:a+s*e*(1-t)})}function re(r,e){let{from:t,to:n}=r.state,o=(n-t)*e;r.change(
{from:t+o,to:n+o})}function lt(r){let{from:e,to:t,call:n,selection:o}=r.state;n>=0&&(r.choose(n,!0),r.state.from!==e||r.state.to!==t)||(o&&(e!==o[0]||t!==o[1])?
r.change({from:o[0],to:o[1]}):r.change({from:0,to:r.calls.span}))}function Qt(r,e,t){let{calls:n,format:o}=r,s=r.selfParts(t),a=n.parentOf(t);H(e,r.fullName(n.func[t]),
`${r.showDuration(t)}, self ${o.time(n.selfOf(t))}`,s&&"self: "+s,`at ${o.moment(n.start[t])}`,o.date(n.start[t]),a>=0&&"called from "+r.nameOf(a),r.endingOf(t),
r.value(t))}function dt(r,e){let{canvas:t,pane:n}=e,{state:o,calls:s,format:a}=r,l=null,i=null,c=!1,u=d=>{let h=e.view();return Math.max(0,Math.min(s.span,h.from+
(d-h.left)*h.perPixel))};t.addEventListener("pointerdown",d=>{if(ye(),d.button!==0||d.pointerType==="touch")return;c=!1;let h=e.at(d.offsetX,d.offsetY);h.gutter?
i=h.lane&&!h.lane.group?{lane:h.lane,y:d.offsetY}:null:l={x:d.offsetX,time:u(d.offsetX)},t.setPointerCapture(d.pointerId)}),t.addEventListener("pointermove",d=>{
if(i&&(e.drop!==null||Math.abs(d.offsetY-i.y)>4)){e.drop=at(e,d.offsetY).y,t.style.cursor="grabbing",r.change({}),H(d);return}if(l&&(e.range||Math.abs(d.offsetX-
l.x)>3)){let f=u(d.offsetX);e.range=[Math.min(l.time,f),Math.max(l.time,f)],r.change({}),H(d);return}let h=e.at(d.offsetX,d.offsetY);t.style.cursor=h.gutter||h.
call>=0?"pointer":"crosshair",h.call>=0?Qt(r,d,h.call):h.wait?H(d,"off CPU",h.wait,"before "+a.moment(h.time)):h.event?H(d,h.event.text,"at "+a.moment(h.event.at),
a.date(h.event.at)):h.lane&&(h.gutter||!h.lane.unfolded)?Zt(r,e,d,h.lane,h.gutter):H(d)}),t.addEventListener("pointerup",d=>{let{range:h}=e;c=!!h||e.drop!==null,
i&&e.drop!==null&&_t(r,e,i.lane,at(e,d.offsetY).before),l=i=e.range=e.drop=null,h&&h[0]<h[1]&&r.change({selection:h})}),t.addEventListener("pointercancel",()=>{
l=i=e.range=e.drop=null}),t.addEventListener("click",d=>{if(c)return;let h=e.at(d.offsetX,d.offsetY),{lane:f}=h;f&&(h.gutter||!f.unfolded)?ct(e,f):r.choose(h.call,
!1)}),t.addEventListener("contextmenu",d=>{let{lane:h}=e.at(d.offsetX,d.offsetY);h&&(d.preventDefault(),H(d),it(r,e,h,d.clientX,d.clientY))}),t.addEventListener(
"pointerleave",d=>H(d)),t.addEventListener("dblclick",d=>{let{call:h}=e.at(d.offsetX,d.offsetY);h>=0&&r.choose(h,!0)}),t.addEventListener("wheel",d=>{let h=e.view();
if(d.shiftKey||Math.abs(d.deltaX)>Math.abs(d.deltaY))re(r,(d.deltaX||d.deltaY)/1e3);else if(d.ctrlKey||d.metaKey)we(r,Math.pow(1.002,d.deltaY),Math.max(0,(d.offsetX-
h.left)/(h.width-h.left)));else return;d.preventDefault()},{passive:!1}),t.addEventListener("keydown",d=>{if(d.ctrlKey||d.metaKey||d.altKey)return;let h=o.call>=
0?e.laneOf(s.threadOf(o.call)):e.layout.lanes[0];if(d.key==="l"&&h){let p=t.getBoundingClientRect();it(r,e,h,p.left+20,p.top+Math.max(0,e.top(h)));return}if(!d.
key.startsWith("Arrow"))return;if(d.preventDefault(),o.call<0){d.key==="ArrowDown"||d.key==="ArrowUp"?e.scrollTo(e.scrolled()+(d.key==="ArrowDown"?40:-40)):re(r,
d.key==="ArrowRight"?.2:-.2);return}let f=s.neighbour(o.call,{ArrowUp:"outer",ArrowDown:"inner",ArrowLeft:"previous",ArrowRight:"next"}[d.key]);f>=0&&(e.reveal(
f),r.choose(f,!1))}),C("menu").addEventListener("focusout",d=>{C("menu").contains(d.relatedTarget)||ye()}),n.addEventListener("scroll",()=>r.change({})),new ResizeObserver(
()=>r.change({})).observe(t)}function ct(r,e){e.group?r.toggleGroup(e.group):r.fold(e.threads,!e.unfolded)}function Zt(r,e,t,n,o){let s=n.threads.reduce((c,u)=>c+
u.calls,0),{format:a,meta:l}=r,i=c=>n.threads.reduce((u,d)=>u+c(d),0);H(t,n.name,n.group&&N(n.threads.length,"thread"),N(s,"call"),`${a.time(i(c=>e.busyOf(c)))}\
 in calls${l.offCPU?` on CPU, ${a.time(i(c=>e.blockedOf(c)))} blocked`:""}`,`click to ${n.group?"show its threads":n.unfolded?"fold":"unfold"}`+(o?(n.group?"":"\
, drag to move")+", right-click for more":""))}function at(r,e){let{lanes:t}=r.layout;for(let o of t)if(e<r.top(o)+o.height/2)return{y:r.top(o),before:o.threads[0].
index};let n=t[t.length-1];return{y:n?r.top(n)+n.height:e,before:null}}function _t(r,e,t,n){let{index:o}=t.threads[0],s=e.layout.lanes.flatMap(l=>l.inGroup?[]:l.
threads.map(i=>i.index)).filter(l=>l!==o),a=n===null?-1:s.indexOf(n);s.splice(a<0?s.length:a,0,o),r.change({moved:s})}var ye=()=>{C("menu").hidden=!0};function it(r,e,t,n,o){
let s=C("menu"),{state:a}=r,l=t.threads.map(d=>d.index),i=(d,h)=>{let f=te(d,"",()=>{ye(),h(),e.canvas.focus()});return f.setAttribute("role","menuitem"),f},c=t.
group?"^("+t.threads.map(d=>q.escaped(d.name)).join("|")+")$":"^"+q.escaped(t.name)+"$";s.replaceChildren(i(t.group?a.groups.includes(t.group)?"close the group":
"show its threads":t.unfolded?"fold":"unfold",()=>ct(e,t)),a.thread===c?i("all threads",()=>r.change({thread:""})):i(t.group?"only these threads":"only this thr\
ead",()=>r.change({thread:c})),...t.group?[]:[t.pinned?i("unpin",()=>r.change({pinned:a.pinned.filter(d=>!l.includes(d))})):i("pin to the top",()=>r.change({pinned:[
...a.pinned,...l]}))],i("hide",()=>r.change({hidden:[...a.hidden,...l]}))),s.hidden=!1,s.style.left=Math.min(n,innerWidth-s.offsetWidth-4)+"px",s.style.top=Math.
min(o,innerHeight-s.offsetHeight-4)+"px";let u=Array.from(s.querySelectorAll("button"));u[0].focus(),s.onkeydown=d=>{let h=u.indexOf(document.activeElement);if(d.
key==="Escape")ye(),e.canvas.focus();else if(d.key==="ArrowDown")u[(h+1)%u.length].focus();else if(d.key==="ArrowUp")u[(h+u.length-1)%u.length].focus();else return;
d.preventDefault(),d.stopPropagation()}}function _(r,e=!0){let t=devicePixelRatio||1,n=r.clientWidth,o=r.clientHeight,s=Math.round(n*t),a=Math.round(o*t);(r.width!==s||r.height!==a)&&Object.assign(r,{
width:s,height:a});let l=r.getContext("2d");return l.setTransform(t,0,0,t,0,0),e&&l.clearRect(0,0,n,o),l.font="11px system-ui, sans-serif",l.textBaseline="middl\
e",{g:l,width:n,height:o,scale:t}}var Z=class{image=null;data=new Uint32Array(0);width=0;height=0;resize(e,t){this.image&&this.width===e&&this.height===t||(this.
image=new ImageData(Math.max(e,1),Math.max(t,1)),this.data=new Uint32Array(this.image.data.buffer),this.width=Math.max(e,1),this.height=Math.max(t,1))}repeat(e,t){
let n=this.width,o=Math.min(t,this.height);for(let s=e+1;s<o;s++)this.data.copyWithin(s*n,e*n,(e+1)*n)}fill(e,t,n,o,s){let a=Math.max(0,t),l=Math.min(this.width,
t+o),i=Math.min(this.height,n+s);if(a<l)for(let c=Math.max(0,n);c<i;c++)this.data.fill(e,c*this.width+a,c*this.width+l)}veil(e,t,n,o,s){let a=Math.max(0,t),l=Math.
min(this.width,t+o),i=Math.min(this.height,n+s),c=(e&16711422)>>>1;for(let u=Math.max(0,n);u<i;u++)for(let d=u*this.width+a;d<u*this.width+l;d++)this.data[d]=(4278190080|
((this.data[d]&16711422)>>>1)+c)>>>0}hatch(e,t,n,o,s){let a=Math.max(0,t),l=Math.min(this.width,t+o),i=Math.min(this.height,n+s);for(let c=Math.max(0,n);c<i;c++)
for(let u=a;u<l;u++)(u+c)%6<2&&(this.data[c*this.width+u]=e)}put(e){e.putImageData(this.image,0,0)}};function j(r,e,t){if(t<12)return"";let n=Math.ceil(t/3),o=e.
length;if(o<=n&&r.measureText(e).width<=t)return e;let s=U(0,Math.min(o,n),a=>r.measureText("…"+e.slice(o-a-1)).width<=t);return s>1?"…"+e.slice(o-s):""}var ut=(r,e)=>Math.max(r.depth,2)*17+e+1;function en({threads:r,order:e,moved:t,weight:n}){let o=new Map(t.map((s,a)=>[s,a]));if(t.length)return r.toSorted((s,a)=>(o.
get(s.index)??1/0)-(o.get(a.index)??1/0)||s.index-a.index);switch(e){case"trace":return r;case"name":return r.toSorted((s,a)=>s.name.localeCompare(a.name,"en",{
numeric:!0})||s.index-a.index);case"start":return r.toSorted((s,a)=>s.start-a.start||s.index-a.index);default:{let s=new Map(r.map(a=>[a,n(a)]));return r.toSorted(
(a,l)=>s.get(l)-s.get(a)||a.index-l.index)}}}function tn(r,e,t,n){if(n.unfolded)return new Set(n.unfolded);if(r.length===1)return new Set([r[0].index]);let o=new Set,
s=n.spare-e*t;for(let a of r.toSorted((l,i)=>i.calls-l.calls||l.index-i.index)){if(s-=ut(a,n.above)-t,s<0)break;o.add(a.index)}return o}function ht(r){let e=new Set(
r.hidden),t=new Set(r.pinned),n=new Set(r.groups),o=en(r).filter(v=>!e.has(v.index)),s=new Map,a=r.threads.length>40;if(a)for(let v of o){let x=s.get(v.pool);x?
x.push(v):s.set(v.pool,[v])}let l=[],i=[],c=(v,x)=>({threads:[v],group:"",inGroup:x,name:v.name,pinned:t.has(v.index)}),u=new Set;for(let v of o){t.has(v.index)&&
i.push(c(v,!1));let x=s.get(v.pool)??[];if(x.length<2)t.has(v.index)||l.push(c(v,!1));else if(!u.has(v.pool)&&(u.add(v.pool),l.push({threads:x,group:v.pool,inGroup:!1,
name:v.pool,pinned:!1}),n.has(v.pool)))for(let M of x)t.has(M.index)||l.push(c(M,!0))}let d=l.length+i.length,h=Math.max(14,Math.min(20,Math.floor(r.room/Math.max(
d,1)))),f=tn(a?[]:o,d,h,r),p=v=>{let x=0;return[v.map(T=>{let S=!T.group&&f.has(T.threads[0].index),w=S?ut(T.threads[0],r.above):h,A={...T,unfolded:S,y:x,height:w};
return x+=w,A}),x]},[m,b]=p(i),[g,k]=p(l);return{pinned:m,lanes:g,pinnedHeight:b,height:k}}var O=22,ee=class r{constructor(e){this.page=e;this.events=e.calls.threads.map(()=>[]);for(let t of e.meta.events)this.events[t.thread].push(t);this.deepest=e.calls.
threads.reduce((t,n)=>Math.max(t,n.depth),1),e.onDraw(()=>this.draw())}page;canvas=C("canvas");pane=C("lanes");gutter=150;layout={pinned:[],lanes:[],pinnedHeight:0,
height:0};range=null;drop=null;laid={key:"",by:void 0};pixels=new Z;byThread=new Map;stateCache=new Map;events;deepest;get above(){return(this.gutter?9:20)+(this.
page.meta.offCPU?6:0)}busyOf(e){return this.timeOf(e,t=>t.open)-this.timeOf(e,t=>t.inside)}blockedOf(e){return this.timeOf(e,t=>t.blocked)}timeOf(e,t){let n=this.
page.profiles.get();return n?t(n.states[e.index]).reduce((o,s)=>o+s,0)/n.parts*this.page.calls.span:0}weight(e){let{order:t}=this.page.state;if(t==="busy")return this.
busyOf(e);if(t==="blocked")return this.blockedOf(e);let n=this.page.found.get()?.rows;return n?n.from[e.row0+e.depth]-n.from[e.row0]:e.calls}static room(){return Math.
max(120,innerHeight-240)}lay(){let{state:e}=this.page,t=["busy","blocked","selected"].includes(e.order),n=t?this.page.found.get():void 0;this.gutter=this.canvas.
clientWidth<600?0:150;let o=JSON.stringify([e.thread,e.order,e.moved,e.pinned,e.hidden,e.groups,e.unfolded,this.gutter,innerHeight,t&&!!this.page.profiles.get()]);
if(!(o===this.laid.key&&n===this.laid.by)){this.laid={key:o,by:n},this.layout=ht({threads:this.page.threads(),order:e.order,moved:e.moved,pinned:e.pinned,hidden:e.
hidden,groups:e.groups,unfolded:e.unfolded,weight:s=>this.weight(s),room:r.room(),spare:innerHeight*(innerHeight<600?.3:.45),above:this.above}),this.byThread.clear();
for(let s of[...this.layout.lanes,...this.layout.pinned])for(let a of s.threads)this.byThread.set(a,s);for(let s of[...this.layout.lanes,...this.layout.pinned])
s.group||this.byThread.set(s.threads[0],s);C("tall").style.height=Math.min(this.height,15e6)+"px"}}get height(){return this.layout.pinnedHeight+this.layout.height}laneOf(e){
return this.byThread.get(e)}scrolled(){let{pane:e}=this,t=e.scrollHeight-e.clientHeight;return t>0?e.scrollTop/t*Math.max(0,this.height+O-e.clientHeight):0}scrollTo(e){
let{pane:t}=this,n=this.height+O-t.clientHeight;n>0&&(t.scrollTop=e/n*(t.scrollHeight-t.clientHeight))}fold(e,t){let{lanes:n,pinned:o}=this.layout,s=new Set([...n,
...o].filter(a=>a.unfolded).map(a=>a.threads[0].index));for(let a of e)t?s.add(a.index):s.delete(a.index);this.page.change({unfolded:Array.from(s)})}toggleGroup(e){
let{groups:t}=this.page.state;this.page.change({groups:t.includes(e)?t.filter(n=>n!==e):[...t,e]})}reveal(e){let{calls:t,state:n}=this.page,o=t.threadOf(e),s=this.
laneOf(o);if(s)s.group&&this.toggleGroup(s.group);else{if(!n.hidden.includes(o.index))return;this.page.change({hidden:n.hidden.filter(c=>c!==o.index)})}s?.unfolded||
this.fold([o],!0),this.lay();let a=this.laneOf(o);if(!a||a.pinned)return;let l=a.y+this.above+t.depth[e]*17,i=this.pane.clientHeight-O-this.layout.pinnedHeight;
(l<this.scrolled()||l+17>this.scrolled()+i)&&this.scrollTo(l-i/2)}top(e){return O+e.y+(this.layout.pinned.includes(e)?0:this.layout.pinnedHeight-this.scrolled())}laneAt(e){
if(e<O)return;let t=(l,i)=>l[U(0,l.length,c=>l[c].y+l[c].height<=i)],n=e-O,{pinned:o,lanes:s,pinnedHeight:a}=this.layout;return n<a?t(o,n):t(s,n-a+this.scrolled())}view(e=this.
canvas.clientWidth){let{state:t}=this.page,n=this.gutter,o=(t.to-t.from)/Math.max(1,e-n),s=Math.round(t.from/o)*o;return{left:n,width:e,perPixel:o,from:s,to:s+(e-
n)*o,x:a=>n+(a-s)/o}}at(e,t){let n=this.view(),o=this.laneAt(t),s=n.from+(e-n.left)*n.perPixel,a={lane:o,call:-1,event:null,wait:"",gutter:e<n.left,time:s};if(!o||
a.gutter||o.group)return a;let l=o.threads[0],i=t-this.top(o)-this.above,c=n.perPixel;if((i<0||!o.unfolded)&&(a.event=this.events[l.index].find(f=>Math.abs(f.at-
s)<=4*c)??null),o.unfolded&&i<0&&i>=-7&&(a.wait=this.page.waitParts(l,s-c,s+c)),a.event||i<0||!o.unfolded)return a;let{calls:u}=this.page,d=Math.floor(i/17),h=this.
page.found.get()?.rows;for(let f of h?[u.row(l,d,h),u.row(l,d)]:[u.row(l,d)]){let p=He(f,u,s-c),m=p+1<f.length&&u.start[f[p+1]]<=s?p+1:p;if(m<f.length&&u.start[f[m]]<=
s+c){a.call=f[m];break}}return a}statesOf(e,t,n){let o=e.group||String(e.threads[0].index),s=Math.ceil((t.width-t.left)*n),a=t.perPixel/n,l=this.page.profiles.get(),
i=[t.from,a,s,e.threads.length,!!l].join(),c=this.stateCache.get(o);if(c?.key===i)return c.states;let u=Ne(s);for(let d of e.threads)(l||d.calls<1e5)&&tt(u,this.
page.calls,l,d,t.from,a);return this.stateCache.set(o,{key:i,states:u}),u}kinds(e){let t=this.statesOf(e,this.view(),devicePixelRatio||1),n=[];for(let o=0;o<t.open.
length;o++)xe(t,o)!==n[n.length-1]&&n.push(xe(t,o));return n}draw(){this.lay();let{g:e,width:t,height:n,scale:o}=_(this.canvas,!1),{pixels:s,page:a,layout:l}=this,
i=this.view(t),{theme:c}=a,u=a.format.ticks(i.from,i.to,i.perPixel);s.resize(this.canvas.width,this.canvas.height);let d=g=>Math.round(g*o),h=ue(c.pixel.back,c.
pixel.line,.5);s.fill(c.pixel.back,0,0,s.width,1);for(let{at:g}of u.marks)i.x(g)>=i.left&&s.fill(h,d(i.x(g)),0,1,1);s.repeat(0,s.height);let f=[],p=[],m=(g,k,v)=>{
let x=U(0,g.length,M=>this.top(g[M])+g[M].height<k);for(let M=x;M<g.length&&this.top(g[M])<v;M++)p.push(g[M]),g[M].unfolded?this.drawLane(g[M],k,v,i,o,c,f):this.
drawSummary(g[M],k,v,i,o,c)},b=O+l.pinnedHeight;m(l.pinned,O,Math.min(n,b)),m(l.lanes,b,n),s.put(e),this.drawTexts(e,f,i,c);for(let g of p)e.save(),e.beginPath(),
e.rect(0,g.pinned?O:b,t,n),e.clip(),this.drawEvents(e,g,i,c),this.drawName(e,g,g.pinned?O:b,i,c),e.restore();l.pinnedHeight&&(e.fillStyle=c.css.faint,e.fillRect(
0,b-1,t,2)),this.drawChosen(e,n,i,c),this.drawAxis(e,u,i,c)}drawLane(e,t,n,o,s,a,l){let{pixels:i,page:c}=this,{calls:u}=c,d=e.threads[0],h=this.top(e)+this.above,
f=w=>Math.round(w*s),p=c.found.get()?.rows??null,m=f(o.left),b=Math.min(n,h+d.depth*17);for(let w=Math.max(0,Math.floor((t-h)/17));w<d.depth&&h+w*17<n;w++){let A=h+
w*17,P=f(Math.max(A,t)),R=f(Math.min(A+17,n))-(A+17<n?1:0);if(P>=R||P>=i.height)continue;let $=A+17/2,D=$>t+4?$:-1;this.drawRow(u.row(d,w),P,m,o,s,a,p?a.pixel.dim:
0,D,l),p&&this.drawRow(u.row(d,w,p),P,m,o,s,a,0,D,l),i.repeat(P,R)}if(!c.meta.offCPU)return;let g=this.statesOf(e,o,s),k=h-7,v=f(Math.max(k,t)),x=f(Math.max(k+5,
t)),M={running:a.pixel.running,blocked:a.pixel.blocked,queued:a.pixel.queued,recorder:a.pixel.recorder,unknown:a.pixel.faint},T=f(Math.max(h,t)),S=f(b);for(let w=0,
A=g.open.length;w<A;){let P=xe(g,w),R=w+1;for(;R<A&&xe(g,R)===P;)R++;P!=="absent"&&(x>v&&i.fill(M[P],m+w,v,R-w,x-v),P==="unknown"?i.hatch(a.pixel.back,m+w,T,R-w,
S-T):P!=="running"&&(i.veil(a.pixel.back,m+w,T,R-w,S-T),i.veil(ue(a.pixel.back,M[P],.7),m+w,T,R-w,S-T))),w=R}}drawRow(e,t,n,o,s,a,l,i,c){let{start:u,duration:d,
func:h}=this.page.calls,f=e.length,{from:p,to:m}=o,b=o.perPixel/s,{data:g,width:k}=this.pixels,v=t*k+n,x=k-n,M=a.functions,T=He(e,this.page.calls,p),S=0;for(;T<
f;){let w=e[T],A=u[w];if(A>m)break;let P=(A-p)/b,R=P+d[w]/b,$=Math.max(Math.round(P),0),D=Math.min(Math.max(Math.round(R),$+1),x);if(D>S){let B=l||M[h[w]],le=D-
$>3?D-1:D;for(let J=v+Math.max($,S),Ce=v+le;J<Ce;J++)g[J]=B;S=D,!l&&i>=0&&D-$>24*s&&c.push({x:o.left+$/s,y:i,width:(D-$)/s,func:h[w]})}if(R-P>=1){T++;continue}let ie=p+
(Math.floor(P)+1)*b,W=1;for(;T+W<f&&u[e[T+W]]+d[e[T+W]]<ie;)W*=2;T=U(Math.max(T+(W>>1),T+1),Math.min(T+W,f),B=>u[e[B]]+d[e[B]]<ie)}}drawSummary(e,t,n,o,s,a){let{
pixels:l}=this,i=this.statesOf(e,o,s),c=Math.round(o.left*s),u=this.top(e)+1,d=e.threads.length,h=Math.round(u*s),f=Math.round((u+e.height-2)*s),p=f-h,m=[Math.max(
h,Math.round(t*s)),Math.min(f,Math.round(n*s),l.height)],b=Array.from({length:16},(S,w)=>ue(a.pixel.running,a.pixel.deepest,w/15)),{data:g,width:k}=l,{recorder:v,
queued:x,blocked:M}=a.pixel,T=a.pixel.faint;for(let S=0,w=Math.min(i.open.length,k-c);S<w;S++){let A=i.open[S],P=Math.max(0,A-i.inside[S]),R=P+i.recorder[S]+i.queued[S]+
i.blocked[S]+i.unknown[S];if(R<=0)continue;let $=A>0?i.depth[S]/A:0,D=b[Math.min(15,Math.round(15*Math.log2(Math.max($,1))/Math.log2(Math.max(this.deepest,2))))],
ie=p/d,W=R>0?1:0,B=f,le=0;for(let[J,Ce]of[[P,D],[i.recorder[S],v],[i.queued[S],x],[i.blocked[S],M],[i.unknown[S],T]]){if(J<=0)continue;le+=J;let Xe=Math.max(h,Math.
min(f-W,f-Math.round(Math.min(le,d)*ie)));for(let Ee=Math.min(B,m[1])-1,Ut=Math.max(Xe,m[0]);Ee>=Ut;Ee--)g[Ee*k+c+S]=Ce;B=Math.min(B,Xe)}}}drawTexts(e,t,n,o){e.
fillStyle=o.css.onColor;for(let{x:s,y:a,width:l,func:i}of t){let c=Math.max(s,n.left);e.fillText(j(e,this.page.shortName(i),s+l-c-7),c+3,a)}}drawEvents(e,t,{left:n,
perPixel:o,from:s,to:a},{css:l}){if(t.group)return;let i=this.events[t.threads[0].index],c=this.top(t);e.fillStyle=l.accent,e.strokeStyle=l.back,e.lineWidth=1;for(let u=U(
0,i.length,d=>i[d].at<s-5*o);u<i.length&&i[u].at<=a;){let d=n+(i[u].at-s)/o,h=c+1;d>=n&&(e.beginPath(),e.moveTo(d,h+7),e.lineTo(d-3.5,h),e.lineTo(d+3.5,h),e.closePath(),
e.fill(),e.stroke());let f=i[u].at+3*o;u=U(u+1,i.length,p=>i[p].at<f)}}drawName(e,t,n,{left:o,width:s},{css:a}){let l=this.top(t),{height:i}=t,c=t.group?this.page.
state.groups.includes(t.group)?"▾":"▸":t.unfolded?"▾":"▸",u=t.group?`${t.name} (${E(t.threads.length)})`:t.name;if(o){e.fillStyle=t.pinned?a.panel:a.back,
e.fillRect(0,Math.max(l,n),o-1,i);let d=t.inGroup?30:18,h=t.unfolded?Math.max(l,Math.min(n,l+i-34))+4+17/2:l+i/2;e.fillStyle=a.faint,e.fillText(c,d-12,h),t.unfolded&&
e.fillText(j(e,E(t.threads[0].calls)+(t.threads[0].calls===1?" call":" calls"),o-d-6),d,h+15),e.fillStyle=a.text,e.fillText(j(e,u,o-d-6),d,h)}else{e.fillStyle=a.
text,e.strokeStyle=a.back,e.lineWidth=3;let d=t.unfolded?l+11:l+i/2;e.strokeText(`${c} ${u}`,4,d),e.fillText(`${c} ${u}`,4,d)}e.fillStyle=a.line,(t.unfolded||t.
group||i>15)&&e.fillRect(0,l+i-1,s,1),e.fillRect(o-1,Math.max(l,n),1,i)}drawChosen(e,t,n,{css:o}){let{left:s,width:a,x:l}=n,{state:i,calls:c,format:u}=this.page,
d=this.range??i.selection;if(e.save(),e.beginPath(),e.rect(s,0,a-s,t),e.clip(),d){let[f,p]=[l(d[0]),l(d[1])];e.globalAlpha=.16,e.fillStyle=o.accent,e.fillRect(f,
O,p-f,t),e.globalAlpha=1,e.fillRect(f-1,O,1,t),e.fillRect(p,O,1,t);let m=u.time(d[1]-d[0]),b=e.measureText(m).width+12,g=Math.max(s,Math.min(a-b,(f+p-b)/2));e.fillRect(
g,t-24,b,18),e.fillStyle=o.back,e.fillText(m,g+6,t-15)}let h=i.call>=0?this.laneOf(c.threadOf(i.call)):void 0;if(h){let f=i.call,p=this.top(h),m=l(c.start[f]),b=h.
unfolded?p+this.above+c.depth[f]*17:p,g=h.unfolded?17:h.height-1,k=Math.max(m,s-3),v=Math.min(Math.max(l(c.endOf(f)),m+3),a+3);e.strokeStyle=o.text,e.lineWidth=
2,b>O-17&&e.strokeRect(k,b-.5,v-k,g)}this.drop!==null&&(e.fillStyle=o.accent,e.fillRect(0,this.drop-1,a,3)),e.restore()}drawAxis(e,{anchor:t,marks:n},{left:o,width:s,
x:a},{css:l}){e.fillStyle=l.panel,e.fillRect(0,0,s,O);for(let{at:i,label:c}of n)e.fillStyle=l.line,e.fillRect(Math.round(a(i)),0,1,O),e.fillStyle=l.faint,e.fillText(
c,a(i)+4,O/2+1);o&&(e.fillStyle=l.panel,e.fillRect(0,0,o,O),e.fillStyle=l.text,t&&e.fillText(j(e,this.page.format.moment(t),o-16),8,O/2+1)),e.fillStyle=l.line,e.
fillRect(0,O-1,s,1)}};function xe(r,e){let t=Math.max(0,r.open[e]-r.inside[e]),n="absent",o=1-t-r.blocked[e]-r.queued[e]-r.recorder[e]-r.unknown[e];for(let[s,a]of[
["running",t],["blocked",r.blocked[e]],["queued",r.queued[e]],["recorder",r.recorder[e]],["unknown",r.unknown[e]]])a>o&&([n,o]=[s,a]);return n}var qe=["query","min","max","thread"];function mt(r,e,t){let{state:n}=r,o=C("tabs"),s=C("panels"),a=[],l=t.map(i=>{let c=y("button",{role:"tab",id:"tab-"+i.name,
"aria-controls":i.name,onclick:()=>r.change({tab:i.name})},i.title),u=y("section",{role:"tabpanel",id:i.name,"aria-labelledby":c.id});return o.append(c),s.append(
u),c.hidden=!!i.unavailable?.(r),c.hidden||a.push(i.name),{view:i,tab:c,panel:u,draw:i.start(r,u,e)}});o.addEventListener("keydown",i=>{let c=a.indexOf(n.tab),u={
ArrowRight:c+1,ArrowLeft:c-1,Home:0,End:a.length-1}[i.key];if(u===void 0)return;i.preventDefault();let d=a[(u+a.length)%a.length];r.change({tab:d}),C("tab-"+d).
focus()}),r.onDraw(()=>{for(let{view:i,tab:c,panel:u,draw:d}of l){let h=i.name===n.tab;u.hidden=!h,c.setAttribute("aria-selected",String(h)),c.tabIndex=h?0:-1,u.
setAttribute("aria-busy",String(h&&r.busy>0)),h&&d()}})}function nn(r){let e=[],{state:t,format:n}=r,o=C("time").value;for(let s of["query","thread"])try{q.expression(
t[s])}catch(a){e.push([s,a.message.replace(/^Invalid regular expression: /,"")])}for(let s of["min","max"])t[s].trim()&&isNaN(n.parse(t[s]))&&e.push([s,`${t[s]}\
 is not a time`]);return o.trim()&&!n.parseRange(o)&&e.push(["time","enter a time range, for example 1.2s - 1.25s"]),e}function ft(r,e){let{state:t,meta:n,calls:o,
format:s}=r,a=d=>C(d),l=C("order");for(let d of o.threads)d.calls&&C("threads").append(y("option",{value:"^"+q.escaped(d.name)+"$",label:d.name}));for(let d of qe)
a(d).addEventListener("input",()=>r.change({[d]:a(d).value}));a("time").addEventListener("input",()=>r.change({selection:s.parseRange(a("time").value)})),C("fil\
ter").addEventListener("submit",d=>{d.preventDefault(),Ie(r,e,1)}),C("clear").addEventListener("click",()=>{a("time").value="",r.change({query:"",min:"",max:"",
thread:"",selection:null})}),C("theme").addEventListener("click",()=>r.change({theme:r.isDark?"light":"dark"}));let i=C("help");C("help-button").addEventListener(
"click",()=>i.showModal()),C("link").addEventListener("click",()=>rn(r)),C("fit-call").addEventListener("click",()=>{e.reveal(t.call),r.choose(t.call,!0)}),C("m\
ark-call").addEventListener("click",()=>r.markCall()),C("call-function").addEventListener("click",()=>r.pickFunction(t.func));let c={trace:"threads as recorded",
busy:"busiest threads",blocked:"most blocked threads",name:"threads by name",start:"threads by start",selected:"by selected calls"};for(let d of ge)(d!=="blocke\
d"||n.offCPU)&&l.append(y("option",{value:d},c[d]));l.addEventListener("change",()=>r.change({order:ge.find(d=>d===l.value)??"trace",moved:[]}));let u=()=>e.layout.
lanes.filter(d=>!d.group).flatMap(d=>d.threads);C("unfold").addEventListener("click",()=>e.fold(u(),!0)),C("fold").addEventListener("click",()=>r.change({unfolded:[],
groups:[]})),C("unhide").addEventListener("click",()=>r.change({hidden:[]})),on(e),sn(r,e,i),addEventListener("hashchange",()=>{document.activeElement?.blur(),r.
followAddress()}),r.onDraw(()=>{for(let p of qe)document.activeElement!==a(p)&&a(p).value!==t[p]&&(a(p).value=t[p]);let d=t.selection?t.selection.map(p=>s.exact(
p)).join(" - "):"";document.activeElement!==a("time")&&String(s.parseRange(a("time").value))!==String(t.selection)&&(a("time").value=d),l.value=t.moved.length?"":
t.order,C("unhide").hidden=!t.hidden.length,C("unhide").textContent=`show ${N(t.hidden.length,"hidden thread")}`,C("lanes-controls").hidden=o.threads.length<2;let h=nn(
r),f=r.found.get();for(let p of[...qe,"time"])a(p).setAttribute("aria-invalid",String(h.some(([m])=>m===p)));C("range").textContent=h.length?h.map(([,p])=>p).join(
"; "):[r.isFiltered&&f?`${E(f.count)} of ${E(o.n)} calls`:"",n.left?`${E(o.n)} of all ${E(o.n+n.left)} calls are in the page`:""].filter(p=>p).join("; "),C("cle\
ar").hidden=!r.isFiltered})}function Ie(r,e,t){let n=r.listed.get();if(!n?.length)return;let o=n.indexOf(r.state.call),s=n[o<0?0:(o+t+n.length)%n.length];e.reveal(
s),r.choose(s,!1)}async function rn(r){r.writeFragment();let e="copied";try{await navigator.clipboard.writeText(location.href)}catch{e="copy it from the address\
 bar"}C("link").textContent=e,setTimeout(()=>{C("link").textContent="copy link"},2e3)}function pt(r){let{calls:e,format:t}=r;r.onDraw(()=>{let n=r.state.call,o=C(
"chosen-text");if(C("chosen").hidden=n<0,n<0)return;let s=e.parentOf(n),a=r.selfParts(n);o.replaceChildren(y("strong",{},y("bdi",{},r.nameOf(n).slice(-300))),` ${r.
showDuration(n)}, self ${t.time(e.selfOf(n))}${a&&` (${a})`}, at ${t.moment(e.start[n])} on `,y("bdi",{},e.threadOf(n).name),s>=0?", called from ":"",y("bdi",{},
s>=0?r.nameOf(s).slice(-300):""),r.endingOf(n)&&"; "+r.endingOf(n),r.value(n)?"; "+r.value(n):""),o.title=[r.fullName(e.func[n]),t.date(e.start[n])].join(`
`)})}function on(r){let e=C("splitter"),{pane:t}=r,n=a=>{let l=Math.round(Math.max(60,Math.min(a,innerHeight-220)));t.style.height=100*l/innerHeight+"vh",e.setAttribute(
"aria-valuenow",String(Math.round(100*l/innerHeight)))};e.addEventListener("pointerdown",a=>e.setPointerCapture(a.pointerId)),e.addEventListener("pointermove",a=>{
e.hasPointerCapture(a.pointerId)&&n(a.clientY-t.getBoundingClientRect().top)}),e.addEventListener("keydown",a=>{let l={ArrowUp:-20,ArrowDown:20}[a.key];l&&n(t.clientHeight+
l)}),r.lay();let o=r.height+O,s=r.layout.lanes.some(a=>a.unfolded);n(Math.min(o,s?innerHeight*(innerHeight<600?.3:.45)+O:ee.room()+O))}function sn(r,e,t){let n={
w:()=>we(r,.7),s:()=>we(r,1.4285714285714286),a:()=>re(r,-.2),d:()=>re(r,.2),f:()=>lt(r),m:()=>r.markCall(),n:()=>Ie(r,e,1),N:()=>Ie(r,e,-1),"?":()=>t.showModal(),
Backspace:()=>r.goBack(),"/":o=>{o.preventDefault(),C("query").focus()},Escape:()=>r.change({call:-1,selection:null})};addEventListener("keydown",o=>{if(o.ctrlKey||
o.metaKey||o.altKey||t.open)return;let s=o.target;if(s.tagName==="INPUT"||s.tagName==="SELECT"){o.key==="Escape"&&s.blur();return}Object.hasOwn(n,o.key)&&n[o.key](
o)})}var ve=class{worker;waiting=new Map;last=0;constructor(e){let t=URL.createObjectURL(new Blob([e],{type:"text/javascript"}));this.worker=new Worker(t),this.worker.
onmessage=n=>{let{id:o,value:s,error:a}=n.data,{done:l,fail:i}=this.waiting.get(o);this.waiting.delete(o),a===void 0?l(s):i(new Error(a))},this.worker.onerror=n=>{
for(let{fail:o}of this.waiting.values())o(new Error(n.message||"the browser does not start its worker"))}}send(e,t=[]){return new Promise((n,o)=>{this.waiting.set(
e.id,{done:n,fail:o}),this.worker.postMessage(e,t)})}async load(e){let t=await this.send({id:++this.last,load:e});return{loaded:t,calls:new Q(t.columns,t.threads,
t.rows,t.waits,t.length)}}ask(e,...t){return this.send({id:++this.last,name:e,args:t})}};function bt(r){let e=new Map;for(let t of r.functions)t.short||=t.name,e.set(t.short,e.has(t.short));for(let t of r.functions)t.shared=!!e.get(t.short)&&t.short!==
t.name,t.all=null;for(let t of r.threads)t.pool||=t.name;r.pruned=r.counted=0}function gt(r,e){let t=n=>Array.from({length:n},e);for(let n of r.functions){let[o,
s,a,l,i,c,u,d,h,f]=t(10),p=t(6),m=[];n.all={count:o,open:s,counted:a,pruned:l,calls:o+s,timed:o-a-l,total:i,self:c,cpu:u,blocked:d,queued:h,recorder:f,max:p[5],
quantiles:p,bins:m},r.pruned+=l,r.counted+=a;let b=e(),g=e();for(let k=b;k<b+g;k++)m.push({from:r.octaves[k][0],to:r.octaves[k][1],n:e()});r.limited&&([n.all.allCalls,
n.all.callsMargin,n.all.allTotal,n.all.totalMargin]=t(4),n.all.estimated=e()>0,n.all.timeless=e()>0)}}var wt=["meta","funcs","starts","durations","depths","ends","sums","waits"];async function Me(r){let e=atob(r),t=new Uint8Array(e.length);for(let o=0;o<e.length;o++)
t[o]=e.charCodeAt(o);let n=new Blob([t]).stream().pipeThrough(new DecompressionStream("deflate-raw"));return new Uint8Array(await new Response(n).arrayBuffer())}
function yt(r){let e=0;return()=>{let t=r[e++],n=t&127;for(let o=128;t>127;o*=128)t=r[e++],n+=(t&127)*o;return n}}async function oe(r,e){let t=await Me(r);for(let n=0,
o=0;n<e.length;n++){let s=t[o++],a=s&127;for(let l=128;s>127;l*=128)s=t[o++],a+=(s&127)*l;e[n]=a}return e}async function xt(r){let e=JSON.parse(new TextDecoder().
decode(await Me(r.meta)));bt(e);let t=e.threads.reduce((m,b)=>m+b.calls,0),[n,o,s,a,l]=await Promise.all([oe(r.funcs,new Uint32Array(t)),oe(r.starts,new Float64Array(
t)),oe(r.durations,new Float64Array(t)),oe(r.depths,new Uint32Array(t)),oe(r.ends,new Uint8Array(t))]),i=0,c=0,u=0,d=0,h=e.threads.map((m,b)=>{let g=i+m.calls,k=0,
v=0;for(let M=i;M<g;M++)o[M]=k+=o[M],v=Math.max(v,a[M]+1),c=Math.max(c,k+s[M]);let x={index:b,name:m.name,pool:m.pool,calls:m.calls,first:i,end:g,depth:v,row0:u,
wait0:d,waitEnd:d+m.waits,start:m.calls?o[i]:1/0};return i=g,u+=v,d+=m.waits,x});for(let m of e.events)c=Math.max(c,m.at);e.octaves&&gt(e,yt(await Me(r.sums)));
let f=yt(await Me(r.waits)),p={start:new Float64Array(d),end:new Float64Array(d),blocked:new Float64Array(d),queued:new Float64Array(d),recorder:new Float64Array(
d)};for(let m of h)for(let b=m.wait0,g=0;b<m.waitEnd;b++)p.start[b]=g+=f(),p.end[b]=g+=f(),p.blocked[b]=f(),p.queued[b]=f(),p.recorder[b]=f();return{meta:e,calls:new Q(
{func:n,start:o,duration:s,depth:a,ends:l},h,he(h,a,null),p,c)}}function vt(r,e){let t=C("overview"),{state:n,calls:o}=r,s=()=>{let{g:l,width:i,height:c}=_(t),u=r.rates.get()??new Float64Array(1),d=e.gutter,{css:h}=r.theme,f=i-
d,p=u.length,m=x=>d+x/o.span*f,b=u.reduce((x,M)=>Math.max(x,M),0)||1;l.fillStyle=h.faint,l.globalAlpha=.6,l.beginPath(),l.moveTo(d,c),u.forEach((x,M)=>{l.lineTo(
d+M/p*f,c-x/b*(c-3)),l.lineTo(d+(M+1)/p*f,c-x/b*(c-3))}),l.lineTo(i,c),l.fill(),l.globalAlpha=1;let g=Math.max(d,m(n.from)),k=Math.min(i,m(n.to));if(l.fillStyle=
h.back,l.globalAlpha=.65,l.fillRect(d,0,g-d,c),l.fillRect(k,0,i-k,c),l.globalAlpha=1,l.fillStyle=l.strokeStyle=h.accent,n.selection&&l.fillRect(m(n.selection[0]),
c-3,Math.max(2,m(n.selection[1])-m(n.selection[0])),3),l.strokeRect(g+.5,.5,Math.max(k-g-1,2),c-1),!d)return;l.fillStyle=h.faint;let v=r.meta.left?"calls in the\
 page":r.format.rate(b*p,o.span)||"calls over time";l.fillText(j(l,v,d-12),8,c/2)},a=l=>{let i=(n.to-n.from)/2,c=(l.offsetX-e.gutter)/Math.max(1,t.clientWidth-e.
gutter)*o.span;r.change({from:c-i,to:c+i})};t.addEventListener("pointerdown",l=>{t.setPointerCapture(l.pointerId),a(l)}),t.addEventListener("pointermove",l=>{t.
hasPointerCapture(l.pointerId)&&a(l)}),new ResizeObserver(()=>r.change({})).observe(t),r.onDraw(s)}function X(r,{titles:e,label:t,role:n="grid",count:o,show:s,press:a,key:l}){let u=y("div",{class:"row head",role:"row","aria-rowindex":1},...e),d=y("div",{class:"\
space",role:"rowgroup"}),h=y("p",{class:"empty"},"none"),f=y("div",{class:"table",role:n,"aria-label":t,tabindex:"0"},y("div",{class:"top",role:"rowgroup"},u),d);
r.append(f,h);let p=[],m=-1,b=()=>Math.max(1,o()*22/15e6),g=()=>Math.max(22,f.clientHeight-u.offsetHeight);function k(){let x=o(),M=Math.min(x,Math.ceil(g()/22)+
1);h.hidden=x>0,f.hidden=x===0,f.setAttribute("aria-rowcount",String(x+1)),d.style.height=Math.min(x*22,15e6)+"px";let T=f.scrollTop*b()/22,S=Math.max(0,Math.min(
Math.floor(T),x-M+1));for(;p.length<M;){let w=y("div",{class:"row",role:"row",id:t.replace(/ /g,"-")+"-row-"+p.length});w.addEventListener("click",()=>{m=w.line,
a(w.line)}),p.push(w),d.append(w)}f.removeAttribute("aria-activedescendant"),p.forEach((w,A)=>{w.hidden=A>=M||S+A>=x,!w.hidden&&(w.line=S+A,w.style.top=(b()===1?
w.line*22:f.scrollTop+(w.line-T)*22)+"px",w.setAttribute("aria-rowindex",String(w.line+2)),w.classList.toggle("odd",w.line%2===1),w.line===m&&f.setAttribute("ar\
ia-activedescendant",w.id),s(w,w.line))})}function v(x){m=x;let M=x*22/b(),T=M+22/b();M<f.scrollTop?f.scrollTop=M:T>f.scrollTop+g()&&(f.scrollTop=Math.ceil(T-g()))}
return f.addEventListener("scroll",k),f.addEventListener("keydown",x=>{let M=o(),T=Math.max(1,Math.floor(g()/22)-1);if(!M||x.target!==f||x.ctrlKey||x.metaKey||x.
altKey)return;let S={ArrowDown:m+1,ArrowUp:m-1,PageDown:m+T,PageUp:m-T,Home:0,End:M-1}[x.key];if(S===void 0){l&&m>=0&&m<M&&l(x,m);return}x.preventDefault(),v(Math.
max(0,Math.min(M-1,S))),a(m)}),new ResizeObserver(k).observe(f),{draw:k,reach:v}}var F=(r,e="")=>y("span",{class:e,role:"gridcell",title:r},r),ke=r=>y("span",{class:"\
thread",role:"gridcell",title:r},Pe(r));function G(r,e,...t){let n=r.meta.functions[e],o=y("span",{class:"swatch"});o.style.background=r.theme.functionColor(e);
let s=n.name.slice(0,2e3),a=n.shared?[y("bdi",{class:"full-name"},s)]:[];return y("span",{class:"name",role:"gridcell",title:s},...t,o,Pe(n.short.slice(-2e3)),...a)}
function Te(r,e){let t=F(r,"number narrow share");return t.style.setProperty("--share",100*e+"%"),t}function V(r,e,t){return y("div",{class:e,role:"columnheader"},
t?y("button",{type:"button",onclick:t},r):r)}function Ae(r,e,t){e?r.setAttribute("aria-sort",t?"descending":"ascending"):r.removeAttribute("aria-sort")}var an={function:["function","name"],thread:["thread","thread"],start:["start","number start"],duration:["duration","number"],self:["self","number"],depth:["dep\
th","number narrow"],parent:["called from","name"]},ln=["duration","self","depth"],Mt={name:"calls",title:"calls",start(r,e){let{state:t,calls:n}=r,o=()=>r.listed.
get()??new Uint32Array(0),s=De.map(c=>{let u=V(...an[c],()=>r.change(t.sort===c?{down:!t.down}:{sort:c,down:ln.includes(c)}));return u.dataset.name=c,u}),a=X(e,
{titles:s,label:"calls",count:()=>o().length,show:(c,u)=>{let d=o()[u],h=n.parentOf(d);c.setAttribute("aria-selected",String(d===t.call)),c.replaceChildren(G(r,
n.func[d]),ke(n.threadOf(d).name),F(r.format.moment(n.start[d]),"number start"),F(r.showDuration(d),"number"),F(r.format.time(n.selfOf(d)),"number"),F(String(n.
depth[d]),"number narrow"),h<0?F("","name"):G(r,n.func[h]))},press:c=>r.choose(o()[c],!1),key:(c,u)=>{c.key==="Enter"&&r.choose(o()[u],!0)}}),l=-1,i=null;return()=>{
for(let c of s)Ae(c,c.dataset.name===t.sort,t.down);if(t.call!==l||i!==o()){let c=t.call!==l||t.call>=0;[l,i]=[t.call,o()];let u=c&&l>=0?i.indexOf(l):-1;u>=0&&a.
reach(u)}a.draw()}}};var kt={name:"events",title:"events",unavailable:r=>!r.meta.events.length,start(r,e){let{state:t,meta:n}=r,o=[["number start","time"],["thread","thread"],["name",
"event"]].map(([i,c])=>V(c,i)),s=Y(()=>t.thread+t.selection,()=>{let[i,c]=t.selection??[-1/0,1/0],u=new Set(r.threads().map(d=>d.index));return n.events.filter(
d=>(u.has(d.thread)||!t.thread)&&d.at>=i&&d.at<=c)}),a=-1,l=X(e,{titles:o,label:"events",count:()=>s().length,show:(i,c)=>{let u=s()[c];i.setAttribute("aria-sel\
ected",String(c===a)),i.replaceChildren(F(r.format.moment(u.at),"number start"),ke(n.threads[u.thread].name),F(u.text,"name"))},press:i=>{a=i;let c=t.to-t.from,
{at:u}=s()[i];r.change({from:u-c/2,to:u+c/2})}});return()=>l.draw()}};var Tt={name:"flame",title:"flame graph",start(r,e){let t,n=0,o=-1,s=[],a=new Z,l=y("p",{class:"bar",role:"status"}),i=y("canvas",{tabindex:"0",role:"applicatio\
n","aria-label":"flame graph: use arrows to select and Enter to zoom. The call tree shows the same data as a table"}),c=y("div",{id:"flame-space"}),u=y("div",{id:"\
flame-pane"},c,i);e.replaceChildren(l,u);let d=(m,b)=>{let g=m.func(b),k=[g<0?"all":r.fullName(g),`total ${r.format.time(m.total(b))}, ${I(m.total(b),m.time)}`];
return g>=0&&k.push(`self ${r.format.time(m.self(b))}`,N(m.calls(b),"call")),k},h=m=>{let b=Math.floor((m.offsetY+u.scrollTop)/17);return s.find(g=>g.depth===b&&
m.offsetX>=g.x&&m.offsetX<g.x+g.width)?.node??-1},f=m=>{n=m===n?0:m,o=m,r.change(t.func(m)<0?{}:{func:t.func(m)})},p=m=>{let{g:b,width:g,height:k,scale:v}=_(i,!1),
x=r.matching(),M=u.scrollTop,{theme:T}=r;s=nt(m,n,g),c.style.height=(s.reduce((A,P)=>Math.max(A,P.depth),0)+1)*17+"px",a.resize(i.width,i.height),a.data.fill(T.
pixel.back);let S=s.filter(A=>A.depth*17-M>-17&&A.depth*17-M<k),w=A=>m.func(A.node)<0||!!x&&!x[m.func(A.node)];for(let A of S){let P=Math.round((A.depth*17-M)*v),
R=Math.round(A.x*v),$=Math.round((A.x+A.width)*v);a.fill(w(A)?T.pixel.dim:T.functions[m.func(A.node)],R,P,Math.max($-R-($-R>2?1:0),1),Math.round(17*v)-1)}a.put(
b);for(let A of S){let P=A.depth*17-M;b.globalAlpha=A.faint?.6:1,A.width>24&&(b.fillStyle=w(A)?T.css.text:T.css.onColor,b.fillText(j(b,m.func(A.node)<0?"all":r.
shortName(m.func(A.node)),A.width-7),A.x+3,P+17/2)),A.node===o&&(b.strokeStyle=T.css.text,b.lineWidth=2,b.strokeRect(A.x+1,P+1,Math.max(A.width-3,1),14))}b.globalAlpha=
1};return i.addEventListener("pointermove",m=>{let b=h(m);i.style.cursor=b>=0?"pointer":"",t&&b>=0?H(m,...d(t,b)):H(m)}),i.addEventListener("pointerleave",m=>H(
m)),i.addEventListener("click",m=>{h(m)>=0&&f(h(m))}),i.addEventListener("dblclick",m=>{t&&h(m)>0&&r.pickFunction(t.func(h(m)))}),i.addEventListener("keydown",m=>{
if(!t||m.ctrlKey||m.metaKey||m.altKey)return;let b=o>=0?o:n,g=t,v={ArrowUp:()=>g.parent(b),ArrowDown:()=>g.children(b)[0]??-1,ArrowLeft:()=>g.beside(b,-1),ArrowRight:()=>g.
beside(b,1)}[m.key];if(v){o=v()<0?b:v();let x=g.depth(o)*17;(x<u.scrollTop||x+17>u.scrollTop+u.clientHeight)&&(u.scrollTop=x-u.clientHeight/2),r.change(g.func(o)<
0?{}:{func:g.func(o)})}else if(m.key==="Enter")f(b);else return;m.preventDefault()}),u.addEventListener("scroll",()=>r.change({})),new ResizeObserver(()=>r.change(
{})).observe(u),()=>{let m=r.summed.get()?.paths;if(!m)return;t!==m&&([t,n,o]=[m,0,-1]);let b=r.matching(),g=o>0?`${r.shortName(m.func(o))} ${d(m,o).slice(1).join(
", ")}`:"click to zoom, double-click to show the function";l.textContent=[`${r.where()}: ${r.format.time(m.time)} in calls${r.ofPart()}`,b&&`${I(m.matched(b),m.
time)} in matching functions`,g].filter(k=>k).join("; "),p(m),Object.assign(i.dataset,{boxes:s.length,cursor:o,top:n,func:o<0?-1:m.func(o)})}}};var Ke=(r,e)=>e.counted&&e.counted===e.calls?"-":r.format.time(e.total),se=(r,e)=>e.timed===0&&!e.open?"-":r.format.time(e.self),je=(r,e,t)=>se(r,e)==="-"?"-":I(
e.self,t),Ve=r=>r.allCalls===void 0?"-":(r.estimated?"~":"")+E(r.allCalls),We=(r,e)=>e.allCalls===void 0||e.timeless?"-":(e.allCalls>e.calls-(e.open??0)?"~":"")+
r.format.time(e.allTotal),At={name:"functions",title:"functions",start(r,e){let{state:t,meta:n}=r,o={name:"self",down:!0},s=[["name","function"],["calls","calls"],
["total","total"],["self","self"]];n.offCPU&&n.octaves&&s.push(["cpu","self on CPU"]),s.push(["max","longest"]),n.limited&&s.push(["allCalls","all calls"],["all\
Total","all total"]);let a=s.map(([d,h])=>V(h,d==="name"?"name":"number",()=>{Object.assign(o,o.name===d?{down:!o.down}:{name:d,down:d!=="name"}),r.change({})})),
l=y("p",{class:"bar"});e.append(l);let i=r.functionSums(),c=Y(()=>JSON.stringify([t.thread,t.selection,t.query,o,!!i,r.summed.current]),()=>{let d=r.matching(),
{rank:h}=r,f=[],p=i;if(!p)return f;let m=b=>o.name==="name"?0:p.of(b)[o.name]??0;return n.functions.forEach((b,g)=>{(p.of(g).allCalls||p.of(g).calls)>0&&(!d||d[g])&&
f.push(g)}),f.sort((b,g)=>m(b)-m(g)||h[b]-h[g]),o.down?f.reverse():f}),u=X(e,{titles:[...a.slice(0,4),V("share","number narrow"),...a.slice(4)],label:"functions",
count:()=>c().length,show:(d,h)=>{let f=c()[h],p=i.of(f),m=i.time;d.setAttribute("aria-selected",String(f===t.func)),d.replaceChildren(G(r,f),F(E(p.calls),"numb\
er"),F(Ke(r,p),"number"),F(se(r,p),"number"),Te(je(r,p,m),m>0?p.self/m:0),...n.offCPU&&n.octaves?[F(p.cpu===void 0||se(r,p)==="-"?"-":r.format.time(p.cpu),"numb\
er")]:[],F(p.timed===0?"-":r.format.time(p.max),"number"),...n.limited?[Ve(p),We(r,p)].map(b=>F(b,"number")):[])},press:d=>r.change({func:c()[d]}),key:(d,h)=>{d.
key==="Enter"&&r.pickFunction(c()[h])}});return e.addEventListener("dblclick",d=>{d.target.closest(".space")&&r.pickFunction(t.func)}),()=>{i=r.functionSums();let d=[
n.left&&"calls that are not in the page",n.pruned&&"calls that the recorder dropped",n.counted&&"calls that were only counted"].filter(h=>h).join(" and ");l.hidden=
!d,d&&(l.textContent=r.where()+(r.isWhole?`: all calls, including ${d}`:r.ofPart())),a.forEach((h,f)=>Ae(h,s[f][0]===o.name,o.down)),u.draw()}}},St=r=>r?N(r,"ca\
ll"):"no calls";var Et={name:"function",title:"function",start(r,e,t){let n="";return e.tabIndex=0,()=>{let{state:o}=r;o.func>=0&&r.details.get();let s=JSON.stringify([o.func,o.
thread,o.selection,o.call,r.isDark,r.details.current,!!r.functionSums(),r.summed.current]);n!==s&&(n=s,dn(r,e,t))}}};function ae(r,e){let t=r.map((o,s)=>y("th",
{scope:"col",class:s?"":"name"},o)),n=e.map(([o,...s])=>y("tr",{},y("td",{class:"name"},o),...s.map(a=>y("td",{},a))));return y("div",{class:"wide",tabindex:"0"},
y("table",{},y("thead",{},y("tr",{},...t)),y("tbody",{},...n)))}function dn(r,e,t){let n=r.state.func,{format:o,meta:s}=r;if(n<0){e.replaceChildren(y("p",{class:"\
empty"},"Select a call or a function in another view."));return}let a=r.details.get(),l=r.functionSums();if(!a||a.func!==n||!l)return;let i=s.functions[n],c=l.of(
n),u=r.isWhole?i.all:null,d=a.calls-a.open,h=u?u.timed:d,f=u?u.open:a.open,p=u?u.calls:a.calls,m=y("div",{},y("h2",{},i.short.slice(0,500))),b=T=>m.append(y("p",
{class:"faint"},T));i.short!==i.name&&m.append(y("p",{class:"full"},i.name)),i.file&&b(`${i.file}:${i.line}`);let g=u&&p!==a.calls?`, ${E(a.calls)} of them in t\
he page`:u?"":r.ofPart();if(m.append(y("p",{},`${St(p)} in ${r.where()}${g}`),te("list the calls","show them in the table, longest first",()=>r.listCalls(n))),p){
let T=u?u.quantiles:a.quantiles;if(m.append(ae(["total","self","share of all","shortest","median","p90","p99","p99.9","longest"],[[Ke(r,c),se(r,c),je(r,c,l.time),
...h?T.map(S=>o.time(S)):[]]])),u&&s.offCPU){let S=["self on CPU","blocked","in the run queue"],w=[u.cpu,u.blocked,u.queued];u.recorder&&(S.push("waiting for th\
e recorder"),w.push(u.recorder)),m.append(ae(S,[w.map(A=>o.time(A))]))}f&&b(`${E(f)} still open at the end: not in percentiles and histogram`),u?.pruned&&b(`${E(
u.pruned)} dropped by the recorder: included only in the number of calls and the total time`),u?.counted&&b(`${E(u.counted)} only counted: included only in the \
number of calls`)}u&&s.limited&&m.append(ae(["all calls","±","all total","±"],[[Ve(u),E(u.callsMargin),We(r,u),u.timeless?"-":o.time(u.totalMargin)]])),h&&m.append(
y("h3",{},"durations"),un(r,n,u&&h!==d?u.bins:a.bins));let k=s.left?" (calls in the page)":"",v=T=>T.map(({func:S,calls:w,total:A})=>[S<0?"(outermost)":cn(r,S),
E(w),o.time(A)]);a.callers.length&&m.append(y("h3",{},"called from"+k),ae(["function","calls","total"],v(a.callers))),a.callees.length&&m.append(y("h3",{},"call\
s"+k),ae(["function","calls","total"],v(a.callees))),i.source&&m.append(y("h3",{},"source"),y("pre",{tabindex:"0","aria-label":"source"},i.source));let x=y("div",
{}),{call:M}=r.state;M>=0&&r.calls.func[M]===n&&x.append(y("h3",{},"selected call"),Ct(r,t,M,!0)),a.slowest.length&&x.append(y("h3",{},"slowest calls")),a.slowest.
forEach((T,S)=>x.append(Ct(r,t,T,S===0))),e.replaceChildren(y("div",{class:"columns"},m,x))}var cn=(r,e)=>y("button",{type:"button",class:"link",title:r.fullName(
e),onclick:()=>r.pickFunction(e)},y("bdi",{},r.shortName(e)));function un(r,e,t){let n=Math.max(...t.map(a=>a.n)),{format:o}=r,s=y("div",{class:"histogram",role:"\
group","aria-label":"durations"});for(let{from:a,to:l,n:i}of t){let c=y("span",{class:"fill"});c.style.width=i?Math.max(100*i/n,.5)+"%":"0",s.append(y("button",
{type:"button",title:"list these calls",onclick:()=>r.listCalls(e,{min:o.exact(a),max:o.exact(l)})},y("span",{class:"range"},`${o.time(a)} to ${o.time(l)}`),y("\
span",{class:"count"},E(i)),y("span",{class:"track","aria-hidden":"true"},c)))}return s}function Ct(r,e,t,n){let{calls:o,format:s}=r,a=y("summary",{},`${r.showDuration(
t)} at ${s.moment(o.start[t])} on `,y("bdi",{},o.threadOf(t).name)),l=y("details",n?{open:""}:{},a),i=()=>{if(l.childElementCount>1)return;let c=y("tbody");for(let{
call:h,depth:f}of rt(o,t)){let p=y("td",{class:"name",title:r.fullName(o.func[h])},y("bdi",{},r.nameOf(h)));p.style.paddingLeft=6+f*14+"px";let m=y("td",{class:"\
share"},I(o.duration[h],o.duration[t]));m.style.setProperty("--share",100*o.duration[h]/o.duration[t]+"%"),c.append(y("tr",{},p,y("td",{},r.showDuration(h)),y("\
td",{},s.time(o.selfOf(h))),m))}let u=["function","total","self","share"].map((h,f)=>y("th",{scope:"col",class:f?"":"name"},h));l.append(te("show in the timelin\
e","",()=>{e.reveal(t),r.choose(t,!0)}));let d=r.selfParts(t);d&&l.append(y("p",{class:"faint"},"self: "+d)),l.append(y("div",{class:"wide",tabindex:"0"},y("tab\
le",{},y("thead",{},y("tr",{},...u)),c)))};return l.addEventListener("toggle",i),n&&i(),l}var Lt={name:"tree",title:"call tree",start(r,e){let t=y("p",{class:"bar"}),n=new Set;e.replaceChildren(t);let o,s=[],a=[["name","function"],["number","total"],
["number narrow","share"],["number","self"],["number","calls"]].map(([u,d])=>V(d,u)),l=u=>{s=[];let d=u.children(0).reverse();for(let h=d.pop();h!==void 0;h=d.pop())
s.push(h),n.has(h)&&d.push(...u.children(h).reverse())},i=(u,d,h)=>{h?n.add(d):n.delete(d),l(u)},c=X(e,{titles:a,label:"call tree",role:"treegrid",count:()=>s.length,
show:(u,d)=>{let h=o,f=s[d],p=h.children(f).length>0,m=n.has(f),b=y("span",{class:"twist","aria-hidden":"true",onclick:k=>{k.stopPropagation(),i(h,f,!m),r.change(
{})}},p?m?"▾":"▸":""),g=G(r,h.func(f),b);g.style.paddingLeft=Math.min(h.depth(f)-1,30)*14+"px",u.setAttribute("aria-level",String(h.depth(f))),u.setAttribute(
"aria-selected",String(h.func(f)===r.state.func)),p?u.setAttribute("aria-expanded",String(m)):u.removeAttribute("aria-expanded"),u.replaceChildren(g,F(r.format.
time(h.total(f)),"number"),Te(I(h.total(f),h.time),h.total(f)/Math.max(h.time,1)),F(r.format.time(h.self(f)),"number"),F(E(h.calls(f)),"number"))},press:u=>r.change(
{func:o.func(s[u])}),key:(u,d)=>{let h=o,f=s[d];if(u.key==="ArrowRight")i(h,f,!0);else if(u.key==="ArrowLeft"&&n.has(f))i(h,f,!1);else if(u.key==="ArrowLeft"&&h.
parent(f)>0)c.reach(s.indexOf(h.parent(f)));else if(u.key==="Enter")r.pickFunction(h.func(f));else return;u.preventDefault(),r.change({})}});return()=>{let u=r.
summed.get()?.paths;if(u){if(o!==u){o=u,n.clear();for(let d=u.children(0)[0];d!==void 0&&u.depth(d)<50;d=u.children(d)[0])n.add(d);l(u)}t.textContent=`${r.where()}\
: ${r.format.time(u.time)} in calls${r.ofPart()}`,c.draw()}}}};var Be=[Mt,At,Tt,Lt,Et,kt];function Pt(r){let e=null,t=async n=>{if("load"in n){let{meta:s,calls:a}=await xt(n.load),{func:l,start:i,duration:c,depth:u,ends:d}=a;return e=new be(a,s),{meta:s,
threads:a.threads,length:a.length,rank:e.rank.slice(),columns:{func:l.slice(),start:i.slice(),duration:c.slice(),depth:u.slice(),ends:d.slice()},rows:{order:a.rows.
order.slice(),from:a.rows.from.slice()},waits:a.waits}}return e[n.name].apply(e,n.args)};r.onmessage=n=>{t(n.data).then(o=>r.postMessage({id:n.data.id,value:o},
"load"in n.data?hn(o):Se(o)),o=>r.postMessage({id:n.data.id,error:String(o)},[]))}}var hn=r=>[...Se(r.columns),...Se(r.rows),r.rank.buffer];function Se(r){return ArrayBuffer.
isView(r)?[r.buffer]:typeof r!="object"||r===null?[]:Object.values(r).flatMap(Se)}async function mn(r){let e=Object.fromEntries(wt.map(i=>{let c=C(i),u=c.textContent;return c.remove(),[i,u]})),t=new ve(r),{loaded:n,calls:o}=await t.load(e),{meta:s}=n,
a=new q(s,o,t,n.rank,Be.map(i=>i.name));a.readFragment(),document.documentElement.className=a.isDark?"dark":"light";let l=new ee(a);return dt(a,l),ft(a,l),vt(a,
l),mt(a,l,Be),pt(a),C("summary").textContent=[o.n||s.left?`${s.left?`the longest ${E(o.n)} of ${N(o.n+s.left,"call")}`:N(o.n,"call")} of ${N(s.functions.length,
"function")} on ${N(o.threads.filter(i=>i.calls).length,"thread")} in ${a.format.time(o.length)}`:s.counted?`no calls: ${E(s.counted)} were only counted; see th\
e functions view`:"no calls: none were recorded or selected",...s.epoch?["from "+a.format.date(0)]:[],...s.notes].join("; "),a.drawAll(),a.writeFragment(),document.
body.dataset.ready=String(Math.round(performance.now())),{page:a,timeline:l}}var ze=null;typeof document>"u"?Pt(self):(ze=mn(document.currentScript.textContent),
ze.catch(r=>{C("summary").textContent="The page cannot show the trace: "+r.message+". It needs a browser from 2023 or later."}));return Ht(fn);})();
